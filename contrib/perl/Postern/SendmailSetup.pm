# SPDX-License-Identifier: ISC
# PURPOSE  A Sendmail site, for Command.
package Postern::SendmailSetup;
use strict;
use warnings;
use Cwd ();
use File::Basename qw(basename dirname);
use Postern::Changes;
use Postern::Lines;
use Postern::Own;
use Postern::SendmailPlan;
use Postern::SendmailSite;
use Postern::Tool;

use constant PROGRAM => 'postern-sendmail-setup';

# new(\%options, \%places)
sub new {
	my ($class, $options, $places) = @_;
	my $self = bless { options => $options, places => $places, program => PROGRAM,
		lines => Postern::Lines->new('dnl #', PROGRAM) }, $class;
	$self->{site} = Postern::SendmailSite->new($options);
	for my $kind (qw(mc cf)) {
		my ($real, $fault) = Postern::Changes::real_file($self->{site}{$kind});
		$self->{$kind} = $real;
		fail(EX_UNAVAILABLE, $fault) if !-e $real;
		$self->{fault} //= $fault;
	}
	$self->{name} = 'sendmail:' . Cwd::realpath($self->{mc});
	$self->{own} = Postern::Own->new($options->{posternctl} // $places->{posternctl},
		$options->{'postern-conf'});
	fail(EX_USAGE, '--queue needs --outbound') if $options->{queue} && !$self->has('outbound');
	return $self;
}

sub files {
	my ($self) = @_;
	return @$self{qw(mc cf)};
}

my %unless_told = (milter => 1, connect => 1, outbound => 1, accounts => 0, queue => 0);

sub has {
	my ($self, $part) = @_;
	return 0 if $part eq 'connect' && !$self->has('milter');
	return $self->{options}{$part} // $unless_told{$part};
}

sub parts {
	my ($self) = @_;
	return grep { $self->has($_) } qw(milter accounts connect outbound queue);
}

sub take_options {
	my ($self, $kept) = @_;
	$self->{options}{$_} //= $kept->{$_} for grep { defined $kept->{$_} } keys %unless_told;
}

sub options_to_keep {
	my ($self) = @_;
	return { map { $_ => ($self->{options}{$_} // $unless_told{$_}) ? 1 : 0 } keys %unless_told };
}

# --- the plan ---------------------------------------------------------------------

sub plan {
	my ($self, $findings, $making) = @_;
	my ($site, $text, $now) = ($self->{site}, read_file($self->{mc}), read_file($self->{cf}));
	my ($old, $count) = $self->{lines}->take_out($text);
	my @same = ({ path => $self->{mc}, now => $text, before => $text, after => $text },
		{ path => $self->{cf}, now => $now, before => $now, after => $now });
	if (!defined $old) {
		$findings->add('obstacle', 'marks', 'sendmail.mc', "the marks of the added lines are broken: $count");
		return @same;
	}
	$findings->add('obstacle', 'file', '', $self->{fault}) if defined $self->{fault};
	my ($built, $why) = $site->build($old);
	if (!defined $built) {
		$findings->add('obstacle', 'rebuilt', 'sendmail.mc', 'm4 cannot build a sendmail.cf from '
			. "it: $why");
		return @same;
	}
	$site->{built} = $built;
	return @same if !$self->is_what_it_makes($findings, $text, $now, $old eq $text ? $built : undef);
	my $plan = $self->{plan} = Postern::SendmailPlan->new($site, $findings,
		$self->{places}{examples}, $old);
	my @insertions = $self->insertions($findings);
	my $new = $self->{lines}->put_in($old, @insertions);
	my $cf = $self->prove($findings, $old, $new);
	return @same if !defined $cf;
	$cf = $site->like($now, $cf, $new);
	# Built again only for its date, it would be another file each time.
	$cf = $now if Postern::SendmailSite::bare($cf) eq Postern::SendmailSite::bare($now);
	$self->look_at_own($findings) if $making || $self->{options}{command} eq 'look';
	return ({ path => $self->{mc}, now => $text, before => $old, after => $new },
		{ path => $self->{cf}, now => $now, after => $cf,
			before => $self->before_cf($old, $text, $now, $site->like($now, $built, $old)) });
}

# sendmail.cf as it was: the very bytes, where they are known.
sub before_cf {
	my ($self, $old, $text, $now, $built) = @_;
	return $now if $old eq $text;
	my $manifest = $self->{earlier};
	for my $one ($manifest ? @{$manifest->{files}} : ()) {
		return $one->{before} if $one->{path} eq $self->{cf} &&
		    Postern::SendmailSite::bare($one->{before}) eq Postern::SendmailSite::bare($built);
	}
	return $built;
}

# Is sendmail.cf what sendmail.mc makes?  Else somebody works on the former by hand.
sub is_what_it_makes {
	my ($self, $findings, $text, $now, $built) = @_;
	my $why;
	($built, $why) = $self->{site}->build($text) if !defined $built;
	my $differences = diff_of('sendmail.cf', Postern::SendmailSite::bare($built // ''),
		Postern::SendmailSite::bare($now));
	return 1 if $differences eq '';
	my ($first) = grep { /\A[-+](?![-+])/ } split /\n/, $differences;
	$findings->add('obstacle', 'rebuilt', 'sendmail.cf', 'it is not what sendmail.mc produces '
		. "(first difference: $first): it was edited, sendmail.mc has changed since it was built, "
		. 'or it is built in another way. Build it from sendmail.mc, or add the lines '
		. 'manually');
	return 0;
}

sub insertions {
	my ($self, $findings) = @_;
	my ($site, $plan) = @$self{qw(site plan)};
	fail(EX_USAGE, 'all parts are switched off; use "undo" to remove Postern\'s lines') if !$self->parts;
	my %compiled = $site->compiled;
	$findings->add('obstacle', 'version', '', 'this Sendmail is compiled without MILTER')
	    if ($self->has('milter') || $self->has('accounts')) && !$compiled{MILTER};
	$findings->add('obstacle', 'version', '', 'this Sendmail is compiled without SOCKETMAP')
	    if ($self->has('outbound') || $self->has('connect')) && !$compiled{SOCKETMAP};
	$plan->look($self->parts);
	if ($self->has('queue')) {
		$plan->queue;
		$self->look_at_service($findings);
	}
	return (($self->has('milter') ? $plan->milter : ()),
		($self->has('accounts') ? $plan->accounts : ()),
		$plan->rules(grep { !/\A(?:milter|accounts)\z/ } $self->parts));
}

# Postern starts Sendmail's deliveries, which need what its service may lack.
sub look_at_service {
	my ($self, $findings) = @_;
	my ($code, $status) = $self->{own}->ask('status');
	my $lacks = $code == EX_OK && ref $status eq 'HASH' ? $status->{confined} : undef;
	my $place = '/etc/systemd/system/posternd.service.d';
	return if !defined $lacks;
	$findings->add('obstacle', 'queue-service', '', "the service of posternd restricts Sendmail "
		. "($lacks), so mail would bounce, and Postern manages no queue. First: mkdir -p $place; "
		. "cp $self->{places}{examples}/posternd-sendmail.conf $place/; "
		. 'systemctl daemon-reload; systemctl restart posternd');
}

# What our lines may change in sendmail.cf; all else must stay, in its order.
my $may_change = qr/\AO (?:InputMailFilters|Milter\.macros\.connect)=/;
my $may_change_driven = qr{\A(?:O\ (?:InputMailFilters|Milter\.macros\.connect|DeliveryMode|
	QueueDirectory)=|Qmqueue)}x;

# The new sendmail.cf; undef where it would not be as it is meant.
sub prove {
	my ($self, $findings, $old, $new) = @_;
	my $site = $self->{site};
	my ($back) = $self->{lines}->take_out($new);
	fail(EX_SOFTWARE, 'the added lines could not be removed again') if ($back // "\0") ne $old;
	my ($cf, $why) = $site->build($new);
	my @faults = defined $cf ? () : $why;
	if (defined $cf) {
		my $may = $self->has('queue') ? $may_change_driven : $may_change;
		push @faults, map { "it would lose: $_" } grep { $_ !~ $may } map { substr $_, 1 }
		    grep { /\A-(?!--)/ } split /\n/, diff_of('cf',
			map { Postern::SendmailSite::bare($_) } $site->{built}, $cf);
		push @faults, $self->missing($cf);
		my $refusal = $site->refusal($cf);
		push @faults, $refusal if defined $refusal;
	}
	return $cf if !@faults;
	$findings->add('obstacle', 'rebuilt', 'sendmail.cf', 'the change would affect more than intended: '
		. join('; ', splice @faults, 0, 3));
	return undef;
}

# What of ours does not take effect.
sub missing {
	my ($self, $cf) = @_;
	my @found;
	if ($self->has('milter')) {
		my $list = Postern::SendmailSite::option($cf, 'InputMailFilters') // '';
		push @found, "postern is not the first of InputMailFilters ($list)"
		    if $list !~ /\A\s*postern\b/;
		push @found, 'the milter is missing' if $cf !~ /^Xpostern,/m;
		my $macros = Postern::SendmailSite::option($cf, 'Milter.macros.connect') // '';
		push @found, 'Milter.macros.connect lacks {daemon_port}' if $macros !~ /\{daemon_port\}/;
	}
	if ($self->has('accounts')) {
		my $list = Postern::SendmailSite::option($cf, 'InputMailFilters') // '';
		push @found, "postern-accounts is not the last of InputMailFilters ($list)"
		    if $list !~ /\bpostern-accounts\s*\z/ || $cf !~ /^Xpostern-accounts,/m;
	}
	if ($self->has('connect')) {
		my ($first) = Postern::SendmailSite::rules($cf, 'Local_check_relay');
		push @found, 'another Local_check_relay comes before Postern\'s: ' . ($first // 'none')
		    if ($first // '') !~ /PosternClient/;
		push @found, 'the map for clients is missing' if $cf !~ /^Kposternconnect /m;
	}
	if ($self->has('outbound')) {
		my ($first) = Postern::SendmailSite::rules($cf, 'check_compat');
		push @found, 'another check_compat comes before Postern\'s: ' . ($first // 'none')
		    if ($first // '') !~ /PosternBefore/;
		push @found, 'the map is missing' if $cf !~ /^Kpostern /m;
	}
	return @found;
}

# Sendmail uses no socket that others than root could put there.
sub look_at_own {
	my ($self, $findings) = @_;
	my %sockets = $self->{plan}->sockets($self->parts);
	$self->{own}->look($findings, %sockets);
	my $runs_as = Postern::SendmailSite::option($self->{site}{built}, 'RunAsUser') // '';
	$self->{own}->look_at_access($findings, $1, %sockets) if $runs_as =~ /\A\s*([\w-]+)/;
	my %told;
	for my $path (sort keys %sockets) {
		for (my $above = dirname($path); !$told{$above}++; $above = dirname($above)) {
			my @status = stat $above or next;
			$findings->add('obstacle', 'unsafe', $above, 'users other than root can write there, so '
				. "Sendmail refuses the socket $path") if $status[2] & 022;
		}
	}
}

# --- undo -------------------------------------------------------------------------

sub without_ours {
	my ($self, $texts) = @_;
	my $site = $self->{site};
	my ($mc, $why) = $self->{lines}->take_out($texts->{$self->{mc}});
	return (undef, $why) if !defined $mc;
	my ($before, $after);
	($after, $why) = $site->build($texts->{$self->{mc}});
	return (undef, $why) if !defined $after;
	return (undef, 'sendmail.cf is not what sendmail.mc produces: build it first')
	    if Postern::SendmailSite::bare($after) ne
	    Postern::SendmailSite::bare($texts->{$self->{cf}});
	($before, $why) = $site->build($mc);
	return (undef, $why) if !defined $before;
	return { $self->{mc} => $mc,
		$self->{cf} => $site->like($texts->{$self->{cf}}, $before, $mc) };
}

# Was the file only built again (sendmailconfig, make -C /etc/mail), with other comments?
sub is_same {
	my ($self, $path, $one, $other) = @_;
	return $path eq $self->{cf} &&
	    Postern::SendmailSite::bare($one) eq Postern::SendmailSite::bare($other);
}

# Mail in the directories of a driven queue would be out of sight.
sub look_before_undo {
	my ($self, $findings, $files) = @_;
	my ($cf) = grep { $_->{path} eq $self->{cf} } @$files;
	my ($place, $other) = map { Postern::SendmailSite::option($_, 'QueueDirectory') // '' }
	    @$cf{qw(now wanted)};
	return if $place eq $other;
	my @groups = $cf->{now} =~ /^Qpostern\w+,.*?\bP=([^,\s]+)/mg;
	my @full = grep { Postern::SendmailPlan::queue_files($_) }
	    Postern::SendmailPlan::glob_directories($place), @groups;
	return if $place !~ /\*\z/ || !@full;
	my ($parent) = $place =~ m{\A(.*)/};
	$findings->add('obstacle', 'queue-files', '', 'mail waits in ' . join(', ', @full)
		. ", which Sendmail would not see after undo. Stop it, wait until its last process has ended, "
		. "and run: find @full -maxdepth 1 -type f -name '[dhqQ]f*' -exec mv -t $parent {} +");
}

# --- Sendmail itself --------------------------------------------------------------

sub checked {
	my ($self) = @_;
	return $self->{site}->refusal(read_file($self->{cf}));
}

# The daemon that this sendmail.cf is for reads it anew at SIGHUP: it starts itself once more by
# the command that is the second line of its file, and only ends where that has no full path.
sub reload {
	my ($self) = @_;
	my $file = Postern::SendmailSite::option(read_file($self->{cf}), 'PidFile');
	my $text = defined $file && -e $file ? read_file($file) : '';
	my ($pid, $command) = $text =~ /\A([1-9][0-9]*)\n([^\n]*)/;
	my $program = defined $pid ? readlink "/proc/$pid/exe" : undef;
	return 'Sendmail is not running.' if !defined $program || basename($program) !~ /\Asendmail/;
	return "Sendmail was not reloaded: it was started without a full path ($command), so SIGHUP would "
		. 'end it. Restart it.' if $command !~ m{\A/};
	return "Sendmail was reloaded (SIGHUP to $pid)." if kill 'HUP', $pid;
	return "Sendmail could not be reloaded: kill $pid: $!";
}

# --- what is told -----------------------------------------------------------------

my %told = (milter => 'sessions from outside, by milter',
	connect => 'the same at connect, by check_relay: refused clients read Postern\'s text',
	outbound => 'outbound mail, by check_compat and tls_server', queue => 'the queue: managed by Postern',
	accounts => 'each recipient and message of a client that logged in');

sub title {
	my ($self) = @_;
	return ('Sendmail ' . ($self->{site}->version // '(unknown)') . ", $self->{mc}, $self->{cf}\n",
		map { "Asked about: $told{$_}\n" } $self->parts);
}

sub own_domains {
	my ($self) = @_;
	return $self->has('accounts') && $self->{plan} ?
	    Postern::Own::literal_domains($self->{site}->domain_words) : ();
}

sub hints {
	my ($self) = @_;
	return () if !$self->has('accounts') || !$self->{plan};
	return Postern::Own::free_hint((grep { m{[:/|@]} } $self->{site}->domain_words) > 0,
		$self->own_domains);
}

sub facts {
	my ($self) = @_;
	return (mta => 'sendmail', version => $self->{site}->version, mc => $self->{mc},
		cf => $self->{cf}, parts => [$self->parts],
		free => [Postern::Own::free_domains($self->own_domains)]);
}

1;
