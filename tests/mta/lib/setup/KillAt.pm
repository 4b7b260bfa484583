# SPDX-License-Identifier: ISC
# perl -MKillAt=N: kill -9 of this process just before its Nth change of the disk.
# KillAt::arm(N) does the same from there on; KillAt::disarm tells how many there were.
package KillAt;
use strict;
use warnings;

my ($left, $count) = (0, 0);

sub step {
	$count++;
	return if $left == 0 || --$left > 0;
	kill 'KILL', $$;
	select undef, undef, undef, 0.1 while 1;
}

sub arm { ($left, $count) = ($_[0], 0) }
sub disarm { $left = 0; return $count }
sub import { arm($_[1] // 0) }

BEGIN {
	no warnings 'once';
	*CORE::GLOBAL::rename = sub ($$) { step(); CORE::rename($_[0], $_[1]) };
	*CORE::GLOBAL::unlink = sub { step(); CORE::unlink(@_) };
	*CORE::GLOBAL::mkdir = sub ($;$) { step(); CORE::mkdir($_[0], $_[1] // 0777) };
	*CORE::GLOBAL::rmdir = sub ($) { step(); CORE::rmdir($_[0]) };
	*CORE::GLOBAL::sysopen = sub (*$$;$) {
		step();
		@_ > 3 ? CORE::sysopen($_[0], $_[1], $_[2], $_[3]) : CORE::sysopen($_[0], $_[1], $_[2]);
	};
	*CORE::GLOBAL::syswrite = sub (*$;$$) {
		step();
		CORE::syswrite($_[0], $_[1], $_[2] // length $_[1], $_[3] // 0);
	};
	*CORE::GLOBAL::fork = sub () { step(); CORE::fork() };
}

1;
