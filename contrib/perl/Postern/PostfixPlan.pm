# SPDX-License-Identifier: ISC
# PURPOSE  What a Postfix site needs so that sessions from outside are asked about, what of
#          it is left alone, and what is in the way.
# MODEL    The -o lines of conf/postfix-*.master.cf go word for word behind the options of
#          the service that takes mail from outside.  Where one would take the place of
#          words of the site's own, these follow ours.  main.cf is never changed.
package Postern::PostfixPlan;
use strict;
use warnings;
use Postern::Tool;

our %ways = (policy => 'postfix-policy.master.cf', milter => 'postfix-milter.master.cf',
	both => 'postfix-both.master.cf', accounts => 'postfix-accounts.master.cf');

# new(SITE, FINDINGS, EXAMPLES): EXAMPLES is where the lines of conf/ are.
sub new {
	my ($class, $site, $findings, $examples) = @_;
	return bless { site => $site, findings => $findings, examples => $examples }, $class;
}

sub obstacle { my $self = shift; $self->{findings}->add('obstacle', @_) }
sub kept { my $self = shift; $self->{findings}->add('kept', @_) }
sub note { my $self = shift; $self->{findings}->add('note', @_) }

sub line_of {
	my ($service) = @_;
	return 'master.cf, line ' . ($service->{first} + 1);
}

# --- which services ---------------------------------------------------------------

sub runs {
	my ($service, $program) = @_;
	return defined $service->{program} && $service->{program} =~ m{(?:\A|/)\Q$program\E\z};
}

# Does it hear this machine alone?
sub is_local {
	my ($service) = @_;
	my ($host) = Postern::PostfixFiles::place_of($service);
	return $service->{type} eq 'inet' && ($host // '') =~ /\A(?:127\.|::1\z|localhost\z)/;
}

sub is_port_25 {
	my ($service) = @_;
	my (undef, $port) = Postern::PostfixFiles::place_of($service);
	return 0 if $service->{type} ne 'inet' || is_local($service);
	return $port eq 'smtp' || ($port =~ /\A[0-9]+\z/ ? $port :
		(getservbyname $port, 'tcp')[2] // 0) == 25;
}

# The postscreen that each smtpd is behind.
sub find_screens {
	my ($self) = @_;
	my $site = $self->{site};
	my @services = grep { !$_->{fault} } @{$site->{services}};
	my %behind = map { $site->effective($_, 'smtpd_service_name') . '/pass' => $_ }
	    grep { runs($_, 'postscreen') } @services;
	$_->{screen} = $behind{$_->{key}} for @services;
}

# Those that take mail from outside: smtpd on port 25, or behind postscreen there.
sub choose {
	my ($self, @wanted) = @_;
	my $site = $self->{site};
	my @services = grep { !$_->{fault} } @{$site->{services}};
	my @chosen;

	$self->find_screens;
	for my $service (@services) {
		my $is_wanted = @wanted ? grep({ $_ eq $service->{name} || $_ eq $service->{key} }
			@wanted) : is_port_25($service->{screen} // $service);
		push @chosen, $service if runs($service, 'smtpd') && $is_wanted;
	}
	$self->{chosen} = \@chosen;
	for my $name (@wanted) {
		$self->obstacle('no-service', 'master.cf', "no smtpd service is named $name")
		    if !grep { $name eq $_->{name} || $name eq $_->{key} } @chosen;
	}
	$self->obstacle('no-service', 'master.cf', 'no smtpd service listens on port 25: '
		. 'name one with --service') if !@chosen && !@wanted;
	$self->look_at_choice($_) for @chosen;
	$self->tell_of_others(@services);
}

# Those where the site's own users log in.
sub choose_accounts {
	my ($self) = @_;
	my $site = $self->{site};
	$self->find_screens;
	my @logins = grep { !$_->{fault} && runs($_, 'smtpd') &&
		$site->is_on($_, 'smtpd_sasl_auth_enable') } @{$site->{services}};
	my @found = grep { is_submission($_) || $_->{screen} || !$self->is_inside($_) } @logins;
	$self->{submission} = \@found;
	$self->obstacle('no-service', 'master.cf', 'no smtpd service for users has '
		. 'smtpd_sasl_auth_enable=yes: there is no login to count') if !@found;
	my %found = map { $_->{key} => 1 } @found;
	for my $service (grep { !$found{$_->{key}} } @logins) {
		$self->note('no-quotas', $site->where($service, 'smtpd_sasl_auth_enable'), 'users can log in '
			. "at $service->{key}, too, and have no quotas there, because it is for this host or "
			. 'a content filter; if users do log in there, add the lines of '
			. 'postfix-accounts.master.cf manually');
	}
	for my $service (@found) {
		$self->look_at_choice($service);
		my $name = 'smtpd_proxy_filter';
		$self->note('proxy-filter', $site->where($service, $name), "$service->{key}: with "
			. 'smtpd_proxy_filter Postfix reports no queue ID, so accounts[].health sees no '
			. 'results of its mail') if $site->effective($service, $name) ne '';
	}
}

# Does it take mail of this host alone, or what comes back from a content filter?
sub is_inside {
	my ($self, $service) = @_;
	return is_local($service) || $service->{type} ne 'inet' || (!is_port_25($service) &&
		($self->{site}{override}{$service->{key}}{content_filter} // 'none') eq '');
}

sub is_submission {
	my ($service) = @_;
	my (undef, $port) = Postern::PostfixFiles::place_of($service);
	return $service->{type} eq 'inet' && $port =~ /\A(?:submissions?|smtps|587|465)\z/;
}

sub look_at_choice {
	my ($self, $service) = @_;
	my ($site, $where) = ($self->{site}, line_of($service));
	return if $service->{looked_at}++;
	$self->obstacle('twice', $where, "$service->{key} is defined "
		. "$site->{count}{$service->{key}} times in master.cf, and Postfix uses the last: leave one")
	    if $site->{count}{$service->{key}} > 1;
	if ($service->{screen}) {
		$self->note('postscreen', $where, "$service->{key} gets its clients from postscreen "
			. '(' . line_of($service->{screen}) . '): clients that postscreen still '
			. 'holds do not count');
	}
	$self->note('chroot', $where, "$service->{key} is chrooted: Postern's sockets are inside "
		. "the chroot, in $site->{value}{queue_directory}/private") if $service->{chroot} ne 'n';
	for my $setting (@{$service->{settings}}) {
		next if $setting->[1] !~ m{private/postern\b};
		$self->obstacle('by-hand', $where, "$service->{key} already asks Postern, by lines "
			. 'that this program did not add: remove them first');
		last;
	}
}

# Why each other smtpd service stays as it is.
sub tell_of_others {
	my ($self, @services) = @_;
	my $site = $self->{site};
	my %chosen = map { $_->{key} => 1 } @{$self->{chosen}}, @{$self->{submission} || []};
	for my $service (grep { runs($_, 'smtpd') && !$chosen{$_->{key}} } @services) {
		my (undef, $port) = Postern::PostfixFiles::place_of($service);
		my ($word, $why) = ('other-port', 'it is not on port 25; '
			. "--service $service->{key} selects it");
		if (is_submission($service)) {
			($word, $why) = ('submission', 'your own users submit mail there, and limits '
				. 'for strangers would delay them; --accounts adds quotas per login');
		} elsif (is_local($service) ||
		    defined $site->{override}{$service->{key}}{content_filter}) {
			($word, $why) = ('re-injection', 'it takes mail from this host only, or from a '
				. 'content filter, which a limit would delay');
		} elsif ($service->{type} ne 'inet') {
			($word, $why) = ('other-service', "it has no port; --service "
				. "$service->{key} selects it");
		} elsif ($site->effective($service, 'smtpd_upstream_proxy_protocol') ne '') {
			($word, $why) = ('proxy', 'it is behind a proxy (conf/postfix-haproxy.master.cf '
				. "has lines for it); --service $service->{key} selects it");
		}
		$self->kept($word, line_of($service), "$service->{key}: $why");
	}
	$self->kept('local-mail', 'main.cf', 'non_smtpd_milters and pickup: mail submitted '
		. 'locally has no session');
	$self->note('filter', $site->where(undef, 'content_filter'), 'mail still passes the '
		. 'content filter ' . $site->{value}{content_filter} . '; Postern is asked once, when '
		. 'the mail first arrives')
	    if ($site->{value}{content_filter} // '') ne '';
}

# --- by what ----------------------------------------------------------------------

sub is_proxied {
	my ($self, $service) = @_;
	return $self->{site}->effective($service, 'smtpd_upstream_proxy_protocol') ne '' ||
	    ($service->{screen} && $self->{site}->effective($service->{screen},
		'postscreen_upstream_proxy_protocol') ne '');
}

sub choose_way {
	my ($self, $by) = @_;
	my @proxied = grep { $self->is_proxied($_) } @{$self->{chosen}};
	$self->{by} = $by // (@proxied ? 'both' : 'milter');
	my ($major) = ($self->{site}{value}{mail_version} // '') =~ /\A([0-9]+)/;
	$self->obstacle('version', '', "Postfix $self->{site}{value}{mail_version} has no { } in "
		. 'master.cf: Postern needs 3.0') if ($major // 3) < 3;
	for my $service (@{$self->{chosen}}) {
		$self->obstacle('proxy', line_of($service), "$service->{key} is behind a proxy, "
			. 'so the kernel does not show its clients: use --by both')
		    if $self->{by} ne 'both' && $self->is_proxied($service);
		$self->look_at_login($service);
		$self->look_at_stages($service) if $self->{by} ne 'milter';
		$self->look_at_milters($service) if $self->{by} ne 'policy';
	}
}

sub look_at_login {
	my ($self, $service) = @_;
	my $site = $self->{site};
	$self->note('sasl', $site->where($service, 'smtpd_sasl_auth_enable'), "users can log in "
		. "at $service->{key}: they count like any client, because they connect before they log in")
	    if $site->is_on($service, 'smtpd_sasl_auth_enable');
	$self->note('xclient', $site->where($service, 'smtpd_authorized_xclient_hosts'),
		"$service->{key}: clients named by XCLIENT count only with --by policy or both")
	    if $self->{by} eq 'milter' &&
	    $site->effective($service, 'smtpd_authorized_xclient_hosts') ne '';
}

sub look_at_milters {
	my ($self, $service) = @_;
	my $site = $self->{site};
	my $milters = $site->effective($service, 'smtpd_milters');
	$self->note('milters', $site->where($service, 'smtpd_milters'), "$service->{key}: "
		. "$milters stay; Postern comes first, and they do not see sessions that it refuses. The added "
		. 'line repeats them: run make again after a change of smtpd_milters')
	    if $milters ne '';
	$self->note('milter-maps', $site->where($service, 'smtpd_milter_maps'), "$service->{key}: "
		. 'clients in smtpd_milter_maps have their own milters, so Postern is not asked about them')
	    if $site->effective($service, 'smtpd_milter_maps') ne '';
}

# --- smtpd_delay_reject -----------------------------------------------------------

# What a check has to know, by its words; each stage knows that of those before it.
my @needs = (
	[ qr/\A(?:check_helo_\w+|reject_(?:invalid|non_fqdn|unknown)_(?:helo_)?hostname|
		reject_rhsbl_helo)\z/x, 'the HELO name', 1 ],
	[ qr/\A(?:permit_sasl_authenticated|permit_tls_(?:all_)?clientcerts|check_ccert_access|
		check_sasl_access|reject_plaintext_session)\z/x, 'who logged in', 2 ],
	[ qr/\A(?:check_sender_\w+|reject_\w*_sender(?:_\w+)?|reject_\w*sender_login_mismatch)\z/x,
		'the sender', 2 ],
	[ qr/\A(?:check_recipient_\w+|reject_\w*_recipient(?:_\w+)?|permit_mx_backup|
		(?:reject|defer|permit)_(?:un)?auth_destination|reject_multi_recipient_bounce)\z/x,
		'the recipient', 3 ],
	[ qr/\Acheck_policy_service\z/, 'what a policy server needs at RCPT', 3 ],
);
my @lists = ([ client => 0 ], [ helo => 1 ], [ sender => 2 ]);

# Words of a list of restrictions, those of the site's own classes among them.
sub restriction_words {
	my ($self, $text, $depth) = @_;
	my @found;
	for my $word (Postern::PostfixFiles::words(join ' ', split /,/, $text)) {
		next if !defined $word;
		my ($first) = $word =~ /\A(\S*)/;
		push @found, $first;
		my $class = $self->{site}{class}{$first};
		push @found, $self->restriction_words($class, $depth + 1)
		    if defined $class && $depth < 10;
	}
	return @found;
}

# With smtpd_delay_reject=no each list is asked at its own stage.
sub look_at_stages {
	my ($self, $service) = @_;
	my $site = $self->{site};
	return if !$site->is_on($service, 'smtpd_delay_reject');
	for my $list (@lists) {
		my ($name, $stage) = ("smtpd_$list->[0]_restrictions", $list->[1]);
		my @words = $self->restriction_words($site->effective($service, $name), 0);
		my (@late, %seen);
		for my $word (@words) {
			for my $need (@needs) {
				push @late, "$word ($need->[1])"
				    if lc($word) =~ $need->[0] && $need->[2] > $stage && !$seen{$word}++;
			}
		}
		my $where = $site->where($service, $name);
		if (@late) {
			$self->obstacle('delay-reject', $where, "$name of $service->{key} needs what "
				. "Postfix does not know at that stage with smtpd_delay_reject=no, which --by "
				. "$self->{by} requires: " . join(', ', @late) . '; use --by milter');
		} elsif (@words) {
			$self->note('stage', $where, "$name of $service->{key} stays, but answers at "
				. 'its own stage instead of at each recipient: Postfix logs its rejects '
				. 'without sender and recipient');
		}
	}
}

# --- the lines --------------------------------------------------------------------

# The -o lines of conf/, as shipped.
sub shipped {
	my ($self, $way) = @_;
	my $file = "$self->{examples}/$ways{$way}";
	my ($first, @lines) = grep { !/\A(?:#|\s*\z)/ } split /\n/, read_file($file);
	fail(EX_SOFTWARE, "$file has no lines of a service")
	    if ($first // '') !~ /\A(?:smtp|submission)\s+inet\s/ || grep { !/\A\s+-o / } @lines;
	return @lines;
}

# A line with the site's own words behind ours.
sub joined {
	my ($self, $service, $line) = @_;
	my $site = $self->{site};
	return $line if $line !~ /\A(\s+-o \{ )(\w+)( = )(.*)( \})\z/s;
	my ($open, $name, $is, $ours, $close) = ($1, $2, $3, $4, $5);
	# what follows there is the site's own
	$ours =~ s/, permit_sasl_authenticated, reject\z//;
	$line = "$open$name$is$ours$close";
	my $theirs = Postern::PostfixSite::plain($site->effective($service, $name, 1));
	$theirs =~ s/\A[\s,]+|[\s,]+\z//g;
	if ($name eq 'milter_connect_macros') {
		my %has = map { $_ => 1 } split ' ', $ours;
		return join('', $open, $name, $is, join(' ', $ours,
			grep { !$has{$_} } split ' ', $theirs), $close);
	}
	return $line if $theirs eq '';
	$self->note('restrictions', $site->where($service, $name), "$name of $service->{key} "
		. 'stays, after Postern; the added line repeats it: run make again after a change of it') if $name =~ /_restrictions\z/;
	return "$open$name$is$ours, $theirs$close";
}

sub setting_of {
	my ($line) = @_;
	return $line =~ /\A\s+-o (?:\{ )?(\w+)/ ? $1 : fail(EX_SOFTWARE, "no setting: $line");
}

# { at, lines } for Lines, and the settings that the service then has: name => value.
sub insertions {
	my ($self) = @_;
	my @found;
	my %ways;
	push @{$ways{$_->{key}}}, $self->{by} for @{$self->{chosen} || []};
	push @{$ways{$_->{key}}}, 'accounts' for @{$self->{submission} || []};
	for my $service (grep { !$_->{fault} && $ways{$_->{key}} } @{$self->{site}{services}}) {
		my @shipped = map { $self->shipped($_) } @{$ways{$service->{key}}};
		# of two lists of one name Postfix has the last
		my %last = map { setting_of($shipped[$_]) => $_ } 0 .. $#shipped;
		push @found, { at => $service->{last} + 1, key => $service->{key},
			lines => [map { $self->joined($service, $shipped[$_]) }
				sort { $a <=> $b } values %last] };
	}
	return @found;
}

1;
