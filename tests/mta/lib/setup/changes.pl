# SPDX-License-Identifier: ISC
# perl -I... changes.pl DIRECTORY STEP FIRST: killed before each write (each STEPth, from
# FIRST on) of make and of undo, Changes leaves files that are as they were or as they were to be, and undo gives back all.
# "ok TEXT" and "FAIL TEXT" lines.
use strict;
use warnings;
use KillAt;
use Postern::Changes;
use Postern::Tool;

my ($place, $step, $first_point) = @ARGV;
my @files = map { "$place/etc/$_" } qw(one two);
my %before = ($files[0] => "first\nfile", $files[1] => '');
my %after = ($files[0] => "first\nours\nfile\n", $files[1] => "ours\n");
my %third = ($files[0] => "first\nother\nfile\n", $files[1] => "ours\n");
own_words();

sub text_of {
	my ($path) = @_;
	open(my $file, '<', $path) or return undef;
	local $/;
	return scalar(<$file>) // '';
}

sub reset_site {
	system('rm', '-rf', "$place/etc", "$place/store");
	CORE::mkdir("$place/etc", 0755);
	for my $path (@files) {
		open(my $file, '>', $path) or die;
		print {$file} $before{$path};
		close $file;
		chmod 0640, $path;
		system('touch', '-d', '2001-02-03 04:05:06.789', $path);
	}
}

# What there is to know: contents, modes, times.
sub state_of {
	return join '', map { my @s = stat $_; "$_ $s[2] $s[9] " . text_of($_) } glob "$place/etc/*";
}

# In a process of its own, killed before its Nth write; was it?
sub killed {
	my ($number, $work) = @_;
	my $pid = CORE::fork();
	if ($pid == 0) {
		KillAt::arm($number);
		eval { $work->(); 1 } or do { print STDERR ref $@ ? $@->{text} : $@; POSIX::_exit(9) };
		KillAt::disarm();
		POSIX::_exit(0);
	}
	waitpid $pid, 0;
	die "it failed\n" if $? >> 8;
	return $? == 9;
}

sub make {
	my ($to) = @_;
	my $store = Postern::Changes->new("$place/store", 'a site');
	$store->lock;
	$store->make({ by => 'test' }, map { { path => $_, before => $before{$_},
		now => text_of($_), after => $to->{$_} } } @files);
}

sub undo {
	my $store = Postern::Changes->new("$place/store", 'a site');
	$store->lock;
	my $manifest = $store->manifest or return;
	for my $one (@{$manifest->{files}}) {
		my $state = Postern::Changes::state_of($one);
		die "$one->{path} is $state\n" if $state !~ /\A(?:before|after)\z/;
	}
	$store->undo({});
}

# `first` is done whole, `work` killed before each of its writes, and then undo.
sub at_every_write {
	my ($name, $first, $work, @allowed) = @_;
	my ($points, $good) = ($first_point - $step, 1);
	reset_site();
	my $whole = state_of();
	while ($good) {
		reset_site();
		$first->() if $first;
		my $was_killed = killed($points += $step, $work);
		for my $path (@files) {
			my $text = text_of($path) // 'gone';
			$good = 0 if !grep { $text eq $_->{$path} } @allowed;
		}
		print "FAIL $name: half written at point $points\n" if !$good;
		killed(0, \&undo);
		if (state_of() ne $whole) {
			print "FAIL $name: undo after a kill at point $points:\n", state_of(), "\n";
			$good = 0;
		}
		last if !$was_killed;
	}
	print "ok $name: killed before its writes up to $points, each ${step}th\n"
	    if $good && $points > 20;
}

# Somebody saves one of the files between the look and make.
sub edited_meanwhile {
	reset_site();
	my %looked = map { $_ => text_of($_) } @files;
	open(my $file, '>', $files[1]) or die;
	print {$file} "his\n";
	close $file;
	my $store = Postern::Changes->new("$place/store", 'a site');
	$store->lock;
	my $made = eval { $store->make({}, map { { path => $_, before => $before{$_},
		now => $looked{$_}, after => $after{$_} } } @files); 1 };
	print !$made && ref $@ && $@->{code} == 75 && text_of($files[0]) eq $before{$files[0]} &&
	    text_of($files[1]) eq "his\n" && !$store->manifest ? 'ok' : 'FAIL',
	    " make: what somebody writes meanwhile is not lost\n";
}

edited_meanwhile();
at_every_write('make', undef, sub { make(\%after) }, \%before, \%after);
at_every_write('make, a second time and otherwise', sub { make(\%after) }, sub { make(\%third) },
	\%before, \%after, \%third);
at_every_write('undo', sub { make(\%after) }, \&undo, \%before, \%after);
