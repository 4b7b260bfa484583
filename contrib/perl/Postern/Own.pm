# SPDX-License-Identifier: ISC
# PURPOSE  Postern's own side: is its configuration right, and does it listen?
# MODEL    All by posternctl, and by the kernel's table of sockets.
package Postern::Own;
use strict;
use warnings;
use Postern::Tool;

# new(PROGRAM, CONFIGURATION or undef)
sub new {
	my ($class, $program, $configuration) = @_;
	my $self = bless { program => find_program($program) }, $class;
	$self->{words} = [$self->{program} // $program,
		defined $configuration ? ('-c', $configuration) : ()];
	return $self;
}

# posternctl --json: exit code, what it told, complaints.
sub ask {
	my ($self, @words) = @_;
	my ($code, $text, $errors) = run({}, @{$self->{words}}, '--json', @words);
	return ($code, json_read($text), $errors);
}

# Adds to FINDINGS what is amiss; SOCKETS: path => the setting that names it.
sub look {
	my ($self, $findings, %sockets) = @_;
	if (!$self->{program}) {
		$findings->add('obstacle', 'posternctl', '', 'posternctl not found: install '
			. 'Postern, or set --posternctl');
		return;
	}
	my ($code, $rows, $errors) = $self->ask('check');
	if ($code != EX_OK) {
		my ($first) = grep { ref $_ && ($_->{severity} // '') eq 'error' }
		    @{ref $rows eq 'ARRAY' ? $rows : []};
		$findings->add('obstacle', 'postern-conf', '', 'posternctl check: '
			. ($first ? join(':', grep { defined } @$first{qw(file line text)}) : $errors));
	}
	# which log is read, or that none is
	$findings->add('note', 'log', '', $_->{text}) for grep { ref $_ && ($_->{severity} // '') eq
	    'note' && ($_->{text} // '') =~ /\Amta\.log/ } @{ref $rows eq 'ARRAY' ? $rows : []};
	for my $path (sort keys %sockets) {
		next if answers($path);
		$findings->add('obstacle', 'socket', '', "nothing listens at $path: set "
			. "$sockets{$path} in postern.conf to unix:$path, and start posternd (restart it if it "
			. "started before Postfix or Sendmail was installed)");
	}
	($code, my $status) = $self->ask('status');
	$findings->add('note', 'observe', '', 'Postern refuses no session until observe is false in '
		. 'postern.conf; until then it counts and logs')
	    if $code == EX_OK && ref $status eq 'HASH' && $status->{observe};
}

# Adds to FINDINGS which sockets of SOCKETS (as for look) the mail server's USER may not open.
sub look_at_access {
	my ($self, $findings, $user, %sockets) = @_;
	my ($name, $uid, $group) = (getpwnam $user)[0, 2, 3];
	return if !$uid;			# root may, and who is not known is not judged
	for my $path (sort keys %sockets) {
		my ($mode, $owner, $of_group) = (stat $path)[2, 4, 5] or next;
		my $members = (getgrgid $of_group)[3] // '';
		my $bit = $owner == $uid ? 0200 : $of_group == $group ||
		    (grep { $_ eq $name } split ' ', $members) ? 0020 : 0002;
		$findings->add('obstacle', 'socket-access', $path, "user $name cannot open this socket: "
			. "set its group in $sockets{$path} of postern.conf to " . getgrgid($group)
			. ' (postern.conf(5), address), and restart posternd') if !($mode & $bit);
	}
}

use constant FREE_MOST => 20;

# The domains of accounts[].free: as many as a line of it holds.
sub free_domains {
	my (@domains) = @_;
	return @domains > FREE_MOST ? @domains[0 .. FREE_MOST - 1] : @domains;
}

# Lines that say how mail to the site's own DOMAINS is not counted; HAS_TABLES: there are more.
sub free_hint {
	my ($has_tables, @domains) = @_;
	my @free = free_domains(@domains);
	my @but = ((@free < @domains ? scalar(@free) . ' of ' . @domains . ' domains' : ()),
		($has_tables ? 'without those in tables' : ()));
	my $begins = 'Recipients in your own domains count unless each entry of accounts has';
	return "$begins them in free.\n" if !@free;
	return ($begins, @but ? ' (' . join(', ', @but) . ')' : '', ":\n    free = [ ",
		join(', ', map { "\"$_\"" } @free), " ];\n");
}

# Domains among the words of settings, each once; tables, patterns and addresses are none.
sub literal_domains {
	my (%seen, @found);
	for my $word (map { lc } @_) {
		push @found, $word if $word =~ /\A[a-z0-9_][\w-]*(?:\.[a-z0-9][\w-]*)+\z/a &&
		    $word !~ /\A(?:[0-9.]+|localhost\..*)\z/ && !$seen{$word}++;
	}
	return @found;
}

# The kernel knows; a visitor who says nothing would be logged.
sub answers {
	my ($path) = @_;
	open(my $table, '<', '/proc/net/unix') or return -S $path;
	while (<$table>) {
		my @fields = split ' ', $_, 8;
		chomp(my $name = $fields[7] // '');
		return 1 if $name eq $path && hex $fields[3] & 0x10000;		# __SO_ACCEPTCON
	}
	return 0;
}

1;
