# SPDX-License-Identifier: ISC
# perl -I... lines.pl SEED: what Lines puts into texts of any kind it takes out again to
# the last byte.
use strict;
use warnings;
use Postern::Lines;
use Postern::PostfixFiles;

srand $ARGV[0];
my @pieces = ("smtp inet n - n - - smtpd\n", "  -o a=b\n", "# comment\n", "\n", "  \n", "\r\n",
	"x y\r\n", "\tz", "# Postern: was here\n", "# Postern:\n", 'no end', "\0\xff\n");
my ($texts, $open) = (0, 0);
for (1 .. 4000) {
	my $text = join '', map { $pieces[rand @pieces] } 1 .. rand 12;
	my $comment = rand 2 < 1 ? '#' : 'dnl #';
	my $lines = Postern::Lines->new($comment, 'test');
	my @numbers = Postern::Lines::split_lines($text);
	my ($at, @insertions) = (0);
	while (@insertions < 3 && $at <= @numbers) {
		$at += int rand 4;
		last if $at > @numbers;
		my $replace = rand 3 < 1 && $at < @numbers ? 1 + int rand(@numbers - $at) : 0;
		push @insertions, { at => $at, replace => $replace, lines => ['ours 1', '  ours 2'] };
		$at += $replace;
	}
	my $new = $lines->put_in($text, @insertions);
	my ($back, $count) = $lines->take_out($new);
	if (!defined $back || $back ne $text || $count != @insertions) {
		print "FAIL take_out: ", join(' ', map { sprintf '%02x', ord } split //, $text), "\n$new\n";
		exit 1;
	}
	$texts++;
	$open++ if $text !~ /\n\z/ && $text ne '' && @insertions;
	# Somebody writes on behind it: nothing of his is lost.
	($back) = $lines->take_out("${new}more\n");
	if ($back !~ /(?:\A|\n)more\n\z/ && $new =~ /\n\z/) {
		print "FAIL take_out: a line behind ours is joined to another\n$new\n";
		exit 1;
	}
	my @logical = Postern::PostfixFiles::services($text);	# must not die
}
for my $broken ("# Postern: begin; x\nours\n", "# Postern: end\n",
	"# Postern: begin; x\n# Postern: begin; x\n# Postern: end\n") {
	my ($back, $why) = Postern::Lines->new('#', 'test')->take_out($broken);
	print defined $back ? "FAIL broken marks are taken\n" : "ok broken marks: $why\n";
}
print "ok $texts texts, $open of them without an end, each as it was\n";
