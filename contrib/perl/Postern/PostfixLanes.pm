# SPDX-License-Identifier: ISC
# PURPOSE  The lines of posternctl postfix-lanes in the place of the line "qmgr".
package Postern::PostfixLanes;
use strict;
use warnings;
use Postern::PostfixFiles;
use Postern::Tool;

my $ours = qr{\A(?:rewrite-postern|postern-hint|postern-probe(?:-relay)?|lane[0-9]+(?:-[A-Za-z0-9_-]+)?)/unix\z};

# { at, replace, lines } for Lines, or nothing where FINDINGS has an obstacle.  MAKING: for
# `make`, which also has posternctl note the site.
sub insertion {
	my ($site, $own, $findings, $mta, $making) = @_;
	my @managers = grep { ($_->{key} // '') =~ m{\Aqmgr/(?:unix|fifo)\z} } @{$site->{services}};
	my ($code, $told, $errors) = $own->ask('postfix-lanes', $making ? () : '--dry-run',
	    defined $mta ? $mta : ());
	my $lines = ref $told eq 'HASH' ? $told->{lines} : undef;
	if (!defined $lines) {
		my $why = ref $told eq 'HASH' && defined $told->{text} ? $told->{text} : $errors;
		$findings->add('obstacle', 'lanes', '', 'no hints for outbound mail: '
			. Postern::PostfixSite::plain($why));
		return ();
	}
	if (($told->{config_directory} // '') ne $site->{directory}) {
		$findings->add('obstacle', 'lanes', '', "mta $told->{mta} of postern.conf is the "
			. "Postfix in $told->{config_directory}: name the one in $site->{directory} "
			. 'by --mta');
		return ();
	}
	if (@managers != 1) {
		$findings->add('obstacle', 'twice', 'master.cf', 'qmgr is defined '
			. @managers . ' times; leave one');
		return ();
	}
	my $where = 'master.cf, line ' . ($managers[0]{first} + 1);
	if (grep { defined $_->{key} && $_->{key} =~ $ours } @{$site->{services}}) {
		$findings->add('obstacle', 'by-hand', $where, 'master.cf has lanes or hints of Postern '
			. 'that this program did not add: remove them first');
		return ();
	}
	$findings->add('note', 'lanes', $where, 'only qmgr asks for hints; transport_maps, '
		. 'relayhost and tables are unchanged. Run make again after a change of the settings or '
		. 'tables');
	$findings->add('note', 'no-lanes', $where, Postern::PostfixSite::plain($told->{no_lanes}))
	    if defined $told->{no_lanes};
	for my $row (grep { defined $_->{fault} } @{$told->{sources} || []}) {
		$findings->add('note', 'no-source', $where, "source $row->{source} gets no mail: "
			. Postern::PostfixSite::plain($row->{fault}));
	}
	for my $row (@{$told->{transports} || []}) {
		my $why = $row->{refused} ? $row->{text} : $row->{no_lanes};
		$findings->add('note', 'no-lanes', $where, "transport $row->{transport}: "
			. Postern::PostfixSite::plain($why)) if defined $why;
	}
	# posternctl finds that word, and names the command that renews these lines
	$lines =~ s/written by\n# posternctl postfix-lanes\./put in\n# by postern-postfix-setup./;
	$lines =~ s/Run the command again after postfix reload, and when/Run its make again when/;
	return { at => $managers[0]{first}, key => $managers[0]{key},
		replace => $managers[0]{last} - $managers[0]{first} + 1,
		lines => [split /\n/, $lines] };
}

sub is_ours {
	my ($key) = @_;
	return $key =~ $ours;
}

1;
