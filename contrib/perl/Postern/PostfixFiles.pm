# SPDX-License-Identifier: ISC
# PURPOSE  Where in master.cf and main.cf each service and setting stands.
# MODEL    Reads as Postfix's readlline() and master_ent do: a logical line goes on over
#          comments, empty lines, and lines that begin with a blank.  What the settings
#          mean is asked of postconf(1); this only finds lines, and the caller compares.
# ERRORS   A line that cannot be read is an entry with `fault`.
package Postern::PostfixFiles;
use strict;
use warnings;
use Postern::Lines;

# Logical lines: { text, first, last }, numbers of lines from 0.
sub logical_lines {
	my ($text) = @_;
	my @lines = Postern::Lines::split_lines($text);
	my @found;
	for my $number (0 .. $#lines) {
		my $line = $lines[$number];
		$line =~ s/\n\z//;
		next if $line =~ /\A\s*(?:#|\z)/;
		if ($line =~ /\A\s/) {
			if (!@found) {
				push @found, { text => $line, first => $number, last => $number,
					fault => 'begins with a blank' };
				next;
			}
			$found[-1]{text} .= $line;
			$found[-1]{last} = $number;
		} else {
			push @found, { text => $line, first => $number, last => $number };
		}
	}
	return @found;
}

# Words between blanks, but for those in { }; one that is all in { } comes without them.
# (undef, why): unbalanced.
sub words {
	my ($text) = @_;
	my @words;
	while ($text =~ /\G\s*(?=\S)/gc) {
		my ($depth, $start) = (0, pos $text);
		while ($text =~ /\G(\s|[{}]|[^\s{}]+)/gc) {
			$depth++ if $1 eq '{';
			$depth-- if $1 eq '}' && $depth > 0;
			next if $depth > 0 || $1 !~ /\A\s\z/;
			pos($text)--;
			last;
		}
		my $word = substr $text, $start, (pos($text) // length $text) - $start;
		if ($word =~ /\A\{/) {
			return (undef, 'has a { without a }') if $depth > 0;
			return (undef, 'has text directly after a }') if !is_one_group($word);
			$word =~ s/\A\{\s*|\s*\}\z//g;
		}
		push @words, $word;
	}
	return @words;
}

# Is the } at the end that of the { at the beginning?
sub is_one_group {
	my ($word) = @_;
	my $depth = 0;
	while ($word =~ /([{}])/g) {
		$depth += $1 eq '{' ? 1 : -1;
		return pos($word) == length $word if $depth == 0;
	}
	return 0;
}

# Which of a daemon's one-letter options take a word: from Postfix's server skeletons.
my $with_word = 'imnrst';

# The -o settings among a service's arguments, in order: [name, value]...
sub settings_of {
	my (@words) = @_;
	my @found;
	while (defined(my $word = shift @words)) {
		last if $word !~ /\A-(?!-\z)(.+)\z/s;
		my $letters = $1;
		while ($letters =~ s/\A(.)//s) {
			my $letter = $1;
			next if $letter !~ /[o$with_word]/;
			my $value = $letters ne '' ? $letters : shift @words;
			$letters = '';
			next if $letter ne 'o' || !defined $value;
			$value =~ s/\A\{(.*)\}\z/$1/s;
			push @found, [$1, $2] if $value =~ /\A\s*(.*?)\s*=\s*(.*?)\s*\z/s;
		}
	}
	return @found;
}

# Services in their order: { name, type, key, private, unprivileged, chroot, wakeup,
# processes, program, arguments, settings, first, last }, or { fault, first, last }.
sub services {
	my ($text) = @_;
	my @found = logical_lines($text);
	for my $one (@found) {
		next if $one->{fault};
		my @words = words($one->{text});
		$one->{fault} = defined $words[0] ? 'has fewer than 8 words' : $words[1]
		    if !defined $words[0] || @words < 8;
		next if $one->{fault};
		@$one{qw(name type private unprivileged chroot wakeup processes program)} =
		    splice @words, 0, 8;
		$one->{arguments} = [@words];
		$one->{settings} = [settings_of(@words)];
		$one->{key} = "$one->{name}/$one->{type}";
	}
	return @found;
}

# Settings in main.cf: name => [{ value, first, last }...]; the last one counts.
sub settings {
	my ($text) = @_;
	my %found;
	for my $one (logical_lines($text)) {
		next if $one->{fault} || $one->{text} !~ /\A([^=\s]+)\s*=\s*(.*?)\s*\z/s;
		push @{$found{$1}}, { value => $2, first => $one->{first}, last => $one->{last} };
	}
	return %found;
}

# The port that an inet service listens on, and where.
sub place_of {
	my ($service) = @_;
	return ($1, $2) if $service->{name} =~ /\A(?:\[?(.*?)\]?:)?([^:\]]+)\z/s;
	return (undef, $service->{name});
}

# The last setting of a name in a service, or undef.
sub setting_of {
	my ($service, $name) = @_;
	my ($last) = grep { $_->[0] eq $name } reverse @{$service->{settings}};
	return $last ? $last->[1] : undef;
}

1;
