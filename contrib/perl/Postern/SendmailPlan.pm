# SPDX-License-Identifier: ISC
# PURPOSE  Where the lines of conf/sendmail-*.mc go in a sendmail.mc, what of it is left
#          alone, and what is in the way.
# MODEL    Our milter stands above the others; our Local_check_relay and check_compat above
#          the site's, to which they hand on what they got.  Rules of one name are joined by
#          Sendmail in their order, so that nothing of the site's has to change.
package Postern::SendmailPlan;
use strict;
use warnings;
use Postern::SendmailSite;
use Postern::Tool;

my %files = (milter => 'sendmail-postern.mc', connect => 'sendmail-connect.mc', outbound => 'sendmail-outbound.mc',
	accounts => 'sendmail-accounts.mc', queue => 'sendmail-queue.mc');

# new(SITE, FINDINGS, EXAMPLES, TEXT): TEXT of sendmail.mc without us.
sub new {
	my ($class, $site, $findings, $examples, $text) = @_;
	return bless { site => $site, findings => $findings, examples => $examples, text => $text,
		places => Postern::SendmailSite::places($text),
		count => scalar(() = Postern::Lines::split_lines($text)) }, $class;
}

sub obstacle { my $self = shift; $self->{findings}->add('obstacle', @_) }
sub kept { my $self = shift; $self->{findings}->add('kept', @_) }
sub note { my $self = shift; $self->{findings}->add('note', @_) }

sub all {
	my ($self, @kinds) = @_;
	my @found = sort { $a->{line} <=> $b->{line} } map { @{$self->{places}{$_} || []} } @kinds;
	return @found;			# their number, where that is asked
}

sub where {
	my ($one) = @_;
	return 'sendmail.mc, line ' . ($one->{line} + 1);
}

# The lines as shipped, but for comments of sendmail.mc.
sub shipped {
	my ($self, $part) = @_;
	my $file = "$self->{examples}/$files{$part}";
	my @lines = grep { !/\Adnl #/ } split /\n/, read_file($file);
	fail(EX_SOFTWARE, "$file is empty") if !@lines;
	return @lines;
}

# The sockets in them: path => the setting of postern.conf.
sub sockets {
	my ($self, @parts) = @_;
	my %found;
	for my $part (@parts) {
		for ($self->shipped($part)) {
			$found{$1} = $part eq 'accounts' ? 'listen.milter_accounts' : 'listen.milter'
			    if /`S=unix:([^,']+)/;
			$found{$1} = 'listen.socketmap' if /\AK\S+ socket .*unix:(\S+)/;
		}
	}
	return %found;
}

# --- what is there ----------------------------------------------------------------

sub look {
	my ($self, @parts) = @_;
	for my $one ($self->all('filter', 'include', 'map')) {
		next if $one->{text} !~ /\A(?:Kpostern|postern(?:-accounts)?\z)|sendmail-(?:postern|accounts|connect|outbound|queue)\.mc\z/;
		$self->obstacle('by-hand', where($one), 'Sendmail already asks Postern, by lines that '
			. 'this program did not add: remove them first');
		last;
	}
	$self->tell_rules;
	$self->kept('submit', '', 'submit.cf and submit.mc, for mail submitted locally: '
		. 'it goes through the daemon, which asks Postern');
	for my $one ($self->all('limits')) {
		$self->kept('limits', where($one), "FEATURE($one->{text}) stays: it limits each "
			. 'client, and can refuse sessions that Postern admitted');
	}
	for my $one (grep { $_->{text} =~ /InputMailFilters\s*=|[,`]\s*I\s*=/ } $self->all('daemon')) {
		$self->note('daemon', where($one), 'this daemon has its own list of milters: it asks '
			. 'Postern only if you add postern to the list');
	}
}

sub tell_rules {
	my ($self) = @_;
	my @own = grep { $_->{text} eq 'Scheck_compat' } $self->all('rules');
	for my $one (@own, $self->all('compat')) {
		$self->kept('check-compat', where($one), 'your check_compat is unchanged: Sendmail '
			. 'runs Postern\'s rules first, which pass their input on to it');
	}
	my @rules = Postern::SendmailSite::rules($self->{site}{built} // '', 'check_compat');
	$self->kept('check-compat', 'sendmail.cf', 'the check_compat of an included file is '
		. 'unchanged') if @rules && !@own && !$self->all('compat');
	for my $one (grep { $_->{text} =~ /\AS(?:Local_)?check_relay\z/ } $self->all('rules')) {
		$self->kept('check-relay', where($one), 'your ' . substr($one->{text}, 1) . ' is '
			. 'unchanged: Sendmail runs Postern\'s rules first, which pass their input on to it');
	}
	my %told;
	for my $one (grep { $_->{text} =~ /\AS/ && $_->{text} ne 'Scheck_compat' } $self->all('rules')) {
		$told{$one->{text}} //= $one;
	}
	my @names = sort { $told{$a}{line} <=> $told{$b}{line} } keys %told;
	$self->kept('rulesets', where($told{$names[0]}), 'your rulesets are unchanged: '
		. join(', ', map { substr $_, 1 } @names)) if @names;
}

# --- the milter -------------------------------------------------------------------

# The lines of the milter, and where they go: insertions for Lines.
sub milter {
	my ($self) = @_;
	my ($first) = $self->all('filter', 'mailer', 'local', 'compat', 'rules');
	my @lines = $self->shipped('milter');
	my (@found, $at);
	my @lists = $self->all('filters');
	$at = $first ? $first->{line} : $self->{count};
	for my $one ($self->all('filter', 'other_filter')) {
		$self->kept('milter', where($one), "the milter $one->{text} is unchanged; Postern comes "
			. 'first, and this milter does not see sessions that Postern refuses');
	}
	@lines = grep { !/\Adefine\(`confMILTER_MACROS_CONNECT'/ } @lines if $self->all('macros');
	push @found, $self->macros_insertion if $self->all('macros');
	if (@lists) {
		my $list = Postern::SendmailSite::list_of($lists[-1]{text});
		if (!defined $list) {
			$self->obstacle('input-mail-filters', where($lists[-1]), 'this list of milters '
				. 'is not plain text: add the lines of conf/sendmail-postern.mc manually');
		}
		$self->note('input-mail-filters', where($lists[-1]), 'this list of milters stays; '
			. 'postern is put first');
		# below the milters, as each of them would be added once more
		my ($last) = reverse $self->all('filter', 'filters');
		$at = $last->{line} + 1;
		push @lines, "define(`confINPUT_MAIL_FILTERS', `postern, $list')dnl" if defined $list;
	}
	return (@found, { at => $at, lines => \@lines });
}

# Below all milters of the site: what they refuse is not charged.
sub accounts {
	my ($self) = @_;
	my ($last) = reverse $self->all('filter');
	my ($first) = $self->all('mailer', 'local', 'compat', 'rules');
	my ($list) = reverse $self->all('filters');
	$self->obstacle('input-mail-filters', where($list), 'your own list of milters decides which '
		. 'are asked: add postern-accounts at its end, and the lines of '
		. 'conf/sendmail-accounts.mc manually') if $list;
	return { at => $last ? $last->{line} + 1 : $first ? $first->{line} : $self->{count},
		lines => [$self->shipped('accounts')] };
}

# The site sets the macros of connections itself: ours come to them.
sub macros_insertion {
	my ($self) = @_;
	my ($last) = reverse $self->all('macros');
	my $list = Postern::SendmailSite::list_of($last->{text});
	if (!defined $list) {
		$self->obstacle('macros', where($last), 'this list is not plain text: add {daemon_port} and '
			. '{client_resolve} to confMILTER_MACROS_CONNECT manually');
		return ();
	}
	my %has = map { $_ => 1 } split /[\s,]+/, $list;
	my @missing = grep { !$has{$_} } qw({daemon_port} {client_resolve} {client_port});
	return () if !@missing;
	$self->note('macros', where($last), 'the macros of connections stay; added: '
		. join(', ', @missing));
	return { at => $last->{line} + 1, lines => ["define(`confMILTER_MACROS_CONNECT', `"
		. join(', ', grep { $_ ne '' } $list, @missing) . "')dnl"] };
}

# --- rules: clients, and mail that leaves -----------------------------------------

# The rulesets of ours that a site may have, too.
my %ruleset = (connect => 'Local_check_relay', outbound => 'check_compat');

# Has an included file rules of this name?
sub is_included {
	my ($self, $ruleset) = @_;
	return Postern::SendmailSite::rules($self->{site}{built} // '', $ruleset) &&
	    !grep({ $_->{text} eq "S$ruleset" } $self->all('rules')) &&
	    !($ruleset eq 'check_compat' && $self->all('compat'));
}

# Above all rules of the site.
sub rules {
	my ($self, @parts) = @_;
	my ($first) = $self->all('mailer', 'local', 'compat', 'rules');
	my $at = $first ? $first->{line} : $self->{count};
	if (grep { $self->is_included($_) } map { $ruleset{$_} // () } @parts) {
		for my $one (grep { $_->{text} !~ m{m4/cf\.m4\z} } $self->all('include')) {
			$at = $one->{line} if $one->{line} < $at;
		}
	}
	return map { { at => $at, lines => [$self->shipped($_)] } } @parts;
}

# A queue is driven only where it lies ready: what waits in it is not ours to move.
sub queue {
	my ($self) = @_;
	my ($place) = map { /\Adefine\(`QUEUE_DIR',`([^']*)'\)/ ? $1 : () } $self->shipped('queue');
	my ($parent) = $place =~ m{\A(.*)/};
	my $now = Postern::SendmailSite::option($self->{site}{built} // '', 'QueueDirectory') // '';
	my $commands = join ' ', map { /\Adnl #\s+(systemctl.*|while .*|cd .*|find .*|mkdir .*)/ ? $1 : () }
	    split /\n/, read_file("$self->{examples}/$files{queue}");
	$commands =~ s/(sendmail|done) (?=while|cd|find)/$1; /g;
	if ($now ne $parent) {
		$self->obstacle('queue-place', '', "the lines for a managed queue are for $parent, but "
			. "QueueDirectory is $now: add them manually");
		return;
	}
	my @missing = grep { !-d "$parent/$_" } $self->group_directories;
	$self->obstacle('queue-directories', '', "$place: no such directories; create them, and move the "
		. 'waiting mail: ' . $commands) if !glob_directories($place);
	$self->obstacle('queue-groups', '', "$parent lacks directories of queue groups ("
		. join(', ', @missing > 3 ? (@missing[0 .. 2], '...') : @missing)
		. "), without which Sendmail does not start; create them: $commands")
	    if @missing && glob_directories($place);
	$self->obstacle('queue-files', '', "mail waits in $parent itself, which is not part of a managed "
		. 'queue; move it: ' . $commands) if queue_files($parent);
	$self->note('queue', '', 'set mta[].drive in postern.conf, so that Postern manages this queue, '
		. "and its directories: queue = [ \"$parent/q*\", \"$parent/d*\" ], "
		. "local_queue = \"$parent/local\"");
}

# Of the groups that our lines define, in the number that the site wants.
sub group_directories {
	my ($self) = @_;
	my ($count) = map { /\A[^#]*\bdefine\(`POSTERN_GROUPS',\s*`(\d+)'\)/ ? $1 : () }
	    map { $_->{text} } $self->all('define');
	($count) = map { /`POSTERN_GROUPS',`(\d+)'/ ? $1 : () } $self->shipped('queue')
	    if !defined $count;
	return ((map { sprintf 'd%02d', $_ } 1 .. $count // 0), 'local');
}

sub glob_directories {
	my ($pattern) = @_;
	my ($parent, $start) = $pattern =~ m{\A(.*)/([^/*]*)\*\z} or return -d $pattern ? $pattern : ();
	opendir(my $directory, $parent) or return ();
	my @found = grep { /\A\Q$start\E/ && !/\A\./ && -d "$parent/$_" } readdir $directory;
	return map { "$parent/$_" } sort @found;
}

sub queue_files {
	my ($path) = @_;
	opendir(my $directory, $path) or return ();
	return grep { /\A[qhQ]f/ } readdir $directory;
}

1;
