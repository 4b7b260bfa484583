# SPDX-License-Identifier: ISC
# PURPOSE  Our lines in somebody else's file: put in between marks, and taken out so that
#          not a byte is left of them.
# MODEL    take_out(put_in(TEXT)) is TEXT, whatever TEXT is, as long as it has no marks.
#          A line that ours take the place of stays there behind a mark.  A last line
#          without an end gets one; the mark says so (begin-open: the line above it;
#          begin-was-open: the last of those behind a mark).
# ERRORS   take_out: undef and a reason where the marks are broken.
package Postern::Lines;
use strict;
use warnings;

# new(COMMENT, PROGRAM): what begins a comment line there, and who takes ours out.
sub new {
	my ($class, $comment, $program) = @_;
	return bless { comment => "$comment Postern:", program => $program }, $class;
}

# The lines of a text, each with its end.
sub split_lines {
	my ($text) = @_;
	return $text =~ /([^\n]*\n|[^\n]+\z)/g;
}

# put_in(TEXT, INSERTION...): each { at, replace, lines }: before line `at` (from 0; the
# number of lines: at the end) and in the place of the next `replace` lines.
sub put_in {
	my ($self, $text, @insertions) = @_;
	my @lines = split_lines($text);
	for my $one (sort { $b->{at} <=> $a->{at} } reverse @insertions) {
		my ($at, $count) = ($one->{at}, $one->{replace} || 0);
		my @was = @lines[$at .. $at + $count - 1];
		my $end = ($lines[$at > 0 ? $at - 1 : 0] // '') =~ /\r\n\z/ ? "\r\n" : "\n";
		my $word = 'begin';
		if (@was && $was[-1] !~ /\n\z/) {
			$word = 'begin-was-open';
			$was[-1] .= "\n";
		} elsif (!@was && $at > 0 && $lines[$at - 1] !~ /\n\z/) {
			$word = 'begin-open';
			$lines[$at - 1] .= "\n";
		}
		splice @lines, $at, $count,
		    "$self->{comment} $word; \"$self->{program} undo\" removes these lines$end",
		    (map { "$self->{comment} was $_" } @was),
		    (map { "$_$end" } @{$one->{lines}}), "$self->{comment} end$end";
	}
	return join '', @lines;
}

# take_out(TEXT): the text without ours, and how many times they were there.
sub take_out {
	my ($self, $text) = @_;
	my ($count, $number, $inside, $open) = (0, 0, '', 0);
	my @kept;			# $open of them when a line without an end was the last

	for my $line (split_lines($text)) {
		$number++;
		if ($line =~ /\A\Q$self->{comment}\E (begin(?:-was)?(?:-open)?); /) {
			return (undef, "a second mark begins at line $number") if $inside;
			$inside = $1;
			$open = @kept if $inside eq 'begin-open';
			$count++;
		} elsif ($line =~ /\A\Q$self->{comment}\E end\r?\n?\z/) {
			return (undef, "a mark ends at line $number that did not begin") if !$inside;
			$open = @kept if $inside eq 'begin-was-open';
			$inside = '';
		} elsif ($inside && $line =~ /\A\Q$self->{comment}\E was (.*)\z/s) {
			push @kept, $1;
		} elsif (!$inside) {
			push @kept, $line;
		}
	}
	return (undef, 'the last mark has no end') if $inside;
	# Somebody may have written on behind it: then its end stays.
	$kept[-1] =~ s/\n\z// if $open > 0 && $open == @kept;
	return (join('', @kept), $count);
}

sub has_ours {
	my ($self, $text) = @_;
	return scalar $text =~ /^\Q$self->{comment}\E begin/m;
}

1;
