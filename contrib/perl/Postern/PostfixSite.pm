# SPDX-License-Identifier: ISC
# PURPOSE  What a Postfix is set to, and where it stands.
# MODEL    Values come from its own postconf(1); places in master.cf from PostfixFiles.
#          Both must tell the same settings of each service, else the site is not touched.
# ERRORS   fail() where Postfix cannot be asked.
package Postern::PostfixSite;
use strict;
use warnings;
use Postern::PostfixFiles;
use Postern::Tool;

my @names = qw(mail_version config_directory queue_directory multi_instance_directories
	smtpd_delay_reject smtpd_client_restrictions
	smtpd_helo_restrictions smtpd_sender_restrictions smtpd_recipient_restrictions
	smtpd_restriction_classes smtpd_milters smtpd_milter_maps milter_connect_macros
	content_filter smtpd_proxy_filter smtpd_sasl_auth_enable smtpd_upstream_proxy_protocol
	postscreen_upstream_proxy_protocol smtpd_authorized_xclient_hosts smtpd_service_name
	transport_maps relayhost default_transport sender_dependent_relayhost_maps
	sender_dependent_default_transport_maps
	mydestination virtual_mailbox_domains relay_domains);

# new(DIRECTORY or undef): nothing is read yet, so that undo needs no Postfix that works.
sub new {
	my ($class, $directory) = @_;
	my $self = bless { postconf => find_program('postconf') }, $class;
	$directory //= $self->main_directory;
	$directory =~ s{(?<=.)/+\z}{};
	fail(EX_USAGE, "$directory: the path must begin with /")
	    if $directory !~ m{\A/};
	$self->{directory} = $self->{asked} = $directory;
	$self->{$_} = "$directory/$_.cf" for qw(main master);
	return $self;
}

# All of it.
sub read {
	my ($self) = @_;
	$self->{"$_.text"} = read_file($self->{$_}) for qw(main master);
	$self->read_values;
	$self->read_services;
	return $self;
}

# Of the main instance.
sub main_directory {
	my ($self) = @_;
	my ($directory) = $self->ask('-dh', 'config_directory') =~ /\A(.*)$/m;
	return $directory // '/etc/postfix';
}

sub ask {
	my ($self, @words) = @_;
	fail(EX_UNAVAILABLE, 'Postfix is not installed: postconf(1) not found') if !$self->{postconf};
	my ($code, $text, $errors) = run({}, $self->{postconf}, @words);
	fail(EX_UNAVAILABLE, "postconf @words: " . ($errors || "exit code $code")) if $code != 0;
	$self->{told_twice}{$_} = 1 for $errors =~ /(overriding earlier entry: .*)/g;
	return $text;
}

sub asked_values {
	my ($self, @words) = @_;
	return map { /\A(\S+) =(?: (.*))?\z/s ? ($1, $2 // '') : () }
	    split /\n/, $self->ask('-c', $self->{directory}, @words);
}

sub read_values {
	my ($self) = @_;
	$self->{raw} = { $self->asked_values(@names) };
	# postconf takes its time; without a name in a value both are the same.
	$self->{value} = { (grep { /\$/ } values %{$self->{raw}}) ?
		$self->asked_values('-x', @names) : %{$self->{raw}} };
	my @classes = grep { /\A\w+\z/ } split /[\s,]+/, $self->{value}{smtpd_restriction_classes};
	%{$self->{class}} = @classes ? $self->asked_values('-x', @classes) : ();
	my %places = Postern::PostfixFiles::settings($self->{'main.text'});
	$self->{places} = \%places;
}

# { service/type => { name => value } } from postconf -P.
sub overrides {
	my ($self, $directory, @how) = @_;
	my %found;
	for (split /\n/, $self->ask('-c', $directory, @how, '-P')) {
		$found{"$1/$2"}{$3} = $4 // ''
		    if m{\A(\S+)/(inet|unix|fifo|pass|unix-dgram)/(\S+) =(?: (.*))?\z}s;
	}
	return \%found;
}

sub plain {
	my ($text) = @_;
	$text =~ s/\s+/ /g;
	$text =~ s/\A | \z//g;
	return $text;
}

sub read_services {
	my ($self) = @_;
	$self->{services} = [Postern::PostfixFiles::services($self->{'master.text'})];
	$self->{count}{$_->{key} // ''}++ for @{$self->{services}};
	$self->{override} = $self->overrides($self->{directory});
	$self->{expanded} = (grep { /\$/ } map { values %$_ } values %{$self->{override}}) ?
	    $self->overrides($self->{directory}, '-x') : $self->{override};
}

# Where postconf and we read master.cf otherwise: texts.
sub disagreements {
	my ($self) = @_;
	my (%seen, @found);
	for my $service (@{$self->{services}}) {
		my $line = $service->{first} + 1;
		push @found, "line $line $service->{fault}" if $service->{fault};
		next if $service->{fault} || $self->{count}{$service->{key}} > 1;
		$seen{$service->{key}} = 1;
		my %mine = map { $_->[0] => plain($_->[1]) } @{$service->{settings}};
		my $theirs = $self->{override}{$service->{key}} || {};
		for my $name (sort { $a cmp $b } keys %{{%mine, %$theirs}}) {
			push @found, "line $line: $name of $service->{key}"
			    if ($mine{$name} // "\0") ne plain($theirs->{$name} // "\0");
		}
	}
	for my $key (sort keys %{$self->{override}}) {
		push @found, "$key is not found" if !$seen{$key} && !$self->{count}{$key};
	}
	return @found;
}

# A setting as a service has it: raw (as written), or with all $names replaced.
sub effective {
	my ($self, $service, $name, $raw) = @_;
	my $own = $self->{$raw ? 'override' : 'expanded'}{$service->{key}}{$name};
	return $own // $self->{$raw ? 'raw' : 'value'}{$name} // '';
}

sub is_on {
	my ($self, $service, $name) = @_;
	return lc $self->effective($service, $name) eq 'yes';
}

# Words of the lists of domains that this Postfix takes mail for: domains, and tables of them.
sub domain_words {
	my ($self) = @_;
	return map { split /[\s,]+/, $self->{value}{$_} // '' }
	    qw(mydestination virtual_mailbox_domains relay_domains);
}

# "main.cf, line 12", "master.cf, line 7", or "default".
sub where {
	my ($self, $service, $name) = @_;
	return 'master.cf, line ' . ($service->{first} + 1)
	    if defined $service && exists $self->{override}{$service->{key}}{$name};
	my $places = $self->{places}{$name};
	return $places ? 'main.cf, line ' . ($places->[-1]{first} + 1) : 'default';
}

# Other instances of this machine: their configuration directories, as the main one has
# them.
sub instances {
	my ($self) = @_;
	my $main = $self->main_directory;
	return () if !-r "$main/main.cf";
	my %value = $self->{directory} eq $main ? %{$self->{value}} :
	    map { /\A(\S+) = (.*)/ } $self->ask('-c', $main, '-x', 'multi_instance_directories');
	return grep { m{\A/} && $_ ne $self->{directory} } $main,
	    split /[\s,]+/, $value{multi_instance_directories} // '';
}

1;
