# SPDX-License-Identifier: ISC
# PURPOSE  A Postfix site, for Command.
package Postern::PostfixSetup;
use strict;
use warnings;
use Postern::Changes;
use Postern::Lines;
use Postern::Own;
use Postern::PostfixLanes;
use Postern::PostfixPlan;
use Postern::PostfixProof;
use Postern::PostfixSite;
use Postern::Tool;

use constant PROGRAM => 'postern-postfix-setup';

# new(\%options, \%places)
sub new {
	my ($class, $options, $places) = @_;
	my $self = bless { options => $options, places => $places, program => PROGRAM,
		lines => Postern::Lines->new('#', PROGRAM) }, $class;
	fail(EX_USAGE, '--by: use policy, milter or both')
	    if defined $options->{by} && !$Postern::PostfixPlan::ways{$options->{by}};
	$self->{site} = Postern::PostfixSite->new($options->{config});
	$self->{directory} = $self->{site}{directory};
	$self->{name} = "postfix:$self->{directory}";
	($self->{master}, $self->{fault}) = Postern::Changes::real_file($self->{site}{master});
	$self->{own} = Postern::Own->new($options->{posternctl} // $places->{posternctl},
		$options->{'postern-conf'});
	return $self;
}

sub files {
	my ($self) = @_;
	return ($self->{master});
}

# What was wanted the last time is wanted again, where nothing else is said.
sub take_options {
	my ($self, $kept) = @_;
	my $options = $self->{options};
	return if $self->{kept};
	$self->{kept} = 1;
	# who says how, or where, wants it
	$options->{inbound} //= 1 if defined $options->{by} || defined $options->{service};
	$options->{$_} //= $kept->{$_} for grep { defined $kept->{$_} } qw(by lanes inbound accounts mta);
	$options->{service} //= [split ' ', $kept->{services}] if defined $kept->{services};
}

sub options_to_keep {
	my ($self) = @_;
	my $options = $self->{options};
	my %kept = map { $_ => $self->has($_) ? 1 : 0 } qw(lanes inbound accounts);
	for my $name (qw(by mta)) {
		$kept{$name} = $options->{$name} if defined $options->{$name};
	}
	$kept{services} = join ' ', @{$options->{service}} if $options->{service};
	return \%kept;
}

# Parts: limits for who comes in, unless told otherwise; lanes, and quotas per login, if told.
sub has {
	my ($self, $part) = @_;
	return $self->{options}{$part} // ($part eq 'inbound');
}

# --- the plan ---------------------------------------------------------------------

sub plan {
	my ($self, $findings, $making) = @_;
	$self->{site}->read;
	my $text = $self->{site}{'master.text'};
	my ($old, $count) = $self->{lines}->take_out($text);
	if (!defined $old) {
		$findings->add('obstacle', 'marks', 'master.cf', "the marks of the added lines are broken: $count");
		return { path => $self->{master}, now => $text, before => $text, after => $text };
	}
	$findings->add('obstacle', 'file', '', $self->{fault}) if defined $self->{fault};
	# All is decided from the site without us.
	if ($old ne $text) {
		my $directory = Postern::PostfixProof::directory_with($self->{site}{'main.text'}, $old);
		$self->{site} = Postern::PostfixSite->new("$directory")->read;
		$self->{site}{directory} = $self->{directory};
		$self->{scratch} = $directory;		# as long as it is asked about
	}
	my @insertions = $self->insertions($findings, $making);
	my $new = $self->{lines}->put_in($old, @insertions);
	$self->prove($findings, $old, $new, @insertions);
	$self->look_at_own($findings) if $making || $self->{options}{command} eq 'look';
	return { path => $self->{master}, now => $text, before => $old, after => $new };
}

sub insertions {
	my ($self, $findings, $making) = @_;
	my ($site, @found) = ($self->{site});
	fail(EX_USAGE, 'all parts are switched off; use "undo" to remove Postern\'s lines')
	    if !grep { $self->has($_) } qw(inbound accounts lanes);
	my @faults = $site->disagreements;
	$findings->add('obstacle', 'reads-otherwise', 'master.cf', 'Postfix reads it differently from '
		. 'this program: ' . join('; ', @faults)) if @faults;
	$findings->add('note', 'main-twice', 'main.cf', $_) for sort keys %{$site->{told_twice}};
	my $plan = $self->{plan} = Postern::PostfixPlan->new($site, $findings,
		$self->{places}{examples});
	$plan->{accounts} = $self->has('accounts');
	$plan->choose_accounts if $self->has('accounts');
	if ($self->has('inbound')) {
		$plan->choose(@{$self->{options}{service} || []});
		$plan->choose_way($self->{options}{by});
	}
	push @found, $plan->insertions if !grep { $_->{word} =~ /\A(?:twice|by-hand)\z/ }
	    $findings->obstacles;
	if ($self->has('lanes')) {
		push @found, Postern::PostfixLanes::insertion($site, $self->{own}, $findings,
			$self->{options}{mta}, $making);
	} else {
		$self->tell_of_routes($findings);
	}
	$findings->add('kept', 'instances', '', "the Postfix in $_ is another instance; use "
		. "-c $_ for it") for $site->instances;
	return @found;
}

# Where mail goes is Postfix's own.
sub tell_of_routes {
	my ($self, $findings) = @_;
	my $site = $self->{site};
	my @set = grep { ($site->{value}{$_} // '') ne '' } qw(transport_maps relayhost
		sender_dependent_relayhost_maps sender_dependent_default_transport_maps);
	for my $name (@set) {
		$findings->add('kept', 'routes', $site->where(undef, $name), "$name: Postern does "
			. 'not change routes' . ($name =~ /\Asender/ ? '; with relays that depend on the '
			. 'sender there are no lanes' : ''));
	}
	$findings->add('kept', 'leaving', '', 'outbound mail; with --lanes Postern limits its '
		. 'concurrency, but never changes its route');
}

sub prove {
	my ($self, $findings, $old, $new, @insertions) = @_;
	my ($back) = $self->{lines}->take_out($new);
	fail(EX_SOFTWARE, 'the added lines could not be removed again') if ($back // "\0") ne $old;
	return if $new eq $old;
	my @faults = Postern::PostfixProof::differences($self->{site}, $old, $new, @insertions);
	$findings->add('obstacle', 'reads-otherwise', 'master.cf', 'the change would affect more than '
		. 'intended: ' . join('; ', @faults)) if @faults;
}

# Sockets lie in the queue directory: chrooted services and others find them there.
sub look_at_own {
	my ($self, $findings) = @_;
	my $private = "$self->{site}{value}{queue_directory}/private";
	my $by = $self->has('inbound') ? $self->{plan}{by} : '';
	my %sockets;
	$sockets{"$private/postern"} = 'listen.policy' if $by eq 'policy' || $by eq 'both' ||
	    $self->has('accounts');
	$sockets{"$private/postern-milter"} = 'listen.milter' if $by eq 'milter' || $by eq 'both';
	$self->{own}->look($findings, %sockets);
	my $owner = (stat $private)[4];		# mail_owner, as whom smtpd connects
	$self->{own}->look_at_access($findings, scalar getpwuid $owner, %sockets) if $owner;
}

sub without_ours {
	my ($self, $texts) = @_;
	my ($text, $why) = $self->{lines}->take_out($texts->{$self->{master}});
	return (undef, $why) if !defined $text;
	return { $self->{master} => $text };
}

sub look_before_undo { }

# --- Postfix itself ---------------------------------------------------------------

sub postfix {
	my ($self, @words) = @_;
	my $program = find_program('postfix') or return (127, '', 'postfix(1) not found');
	return run({}, $program, '-c', $self->{directory}, @words);
}

sub checked {
	my ($self) = @_;
	my ($code, $text, $errors) = $self->postfix('check');
	return $code == 0 ? undef : "postfix check: $errors$text";
}

sub reload {
	my ($self) = @_;
	my ($code) = $self->postfix('status');
	return 'Postfix is not running.' if $code != 0;
	($code, undef, my $errors) = $self->postfix('reload');
	return "postfix reload failed: $errors" if $code != 0;
	$self->note_lanes if $self->has('lanes');
	return 'Postfix was reloaded.';
}

# The question notes which lanes Postfix has, which takes in its new ones a little later.
sub note_lanes {
	my ($self) = @_;
	for (1 .. 20) {
		my (undef, $told) = $self->{own}->ask('postfix-lanes', $self->{options}{mta} // ());
		last if ref $told ne 'HASH' ||
		    !grep { ($_->{attached} // '') eq 'waits for a reload' } @{$told->{lanes} || []};
		select(undef, undef, undef, 0.1);
	}
}

# --- what is told -----------------------------------------------------------------

sub title {
	my ($self, $findings) = @_;
	my ($site, $plan) = @$self{qw(site plan)};
	my @lines = ("Postfix $site->{value}{mail_version} in $self->{directory}, queue directory "
		. "$site->{value}{queue_directory}\n");
	for my $service (@{$plan && $plan->{chosen} || []}) {
		push @lines, "Asked about: $service->{key} (master.cf, line "
		    . ($service->{first} + 1) . '), by '
		    . { policy => 'policy', milter => 'milter', both => 'policy and milter' }->{$plan->{by}}
		    . ($service->{chroot} eq 'n' ? '' : ', chrooted') . "\n";
	}
	push @lines, map { "Quotas per login: $_->{key} (master.cf, line " . ($_->{first} + 1) . ")\n" }
	    @{$plan && $plan->{submission} || []};
	push @lines, "Outbound mail: lanes and hints for qmgr\n" if $self->has('lanes');
	return @lines;
}

sub own_domains {
	my ($self) = @_;
	return $self->has('accounts') && $self->{plan} ?
	    Postern::Own::literal_domains($self->{site}->domain_words) : ();
}

sub hints {
	my ($self) = @_;
	return () if !$self->has('accounts') || !$self->{plan};
	return Postern::Own::free_hint((grep { m{[:/]} } $self->{site}->domain_words) > 0,
		$self->own_domains);
}

sub facts {
	my ($self) = @_;
	my ($site, $plan) = @$self{qw(site plan)};
	my $value = $site->{value} || {};	# undo has read none
	return (mta => 'postfix', version => $value->{mail_version},
		config_directory => $self->{directory},
		queue_directory => $value->{queue_directory},
		by => $plan ? $plan->{by} : undef,
		lanes => $self->has('lanes') ? \1 : \0,
		accounts => [map { $_->{key} } @{$plan && $plan->{submission} || []}],
		free => [Postern::Own::free_domains($self->own_domains)],
		services => [map { { service => $_->{key}, line => number($_->{first} + 1),
			chroot => $_->{chroot} eq 'n' ? \0 : \1, order => [qw(service line chroot)] } }
			@{$plan && $plan->{chosen} || []}]);
}

1;
