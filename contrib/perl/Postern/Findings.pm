# SPDX-License-Identifier: ISC
# PURPOSE  What was found on a site, and how it is told to people and programs.
# MODEL    obstacle: nothing is changed while it stands (--accept WORD sets some aside);
#          kept: what is not touched, and why; note: what an admin should know.
package Postern::Findings;
use strict;
use warnings;
use Postern::Tool;

sub new {
	my ($class, %accepted) = @_;
	return bless { list => [], accepted => \%accepted }, $class;
}

# What no word of the admin sets aside, as Postfix or Sendmail would not be as before.
my %never = map { $_ => 1 } qw(by-hand marks reads-otherwise twice version no-service file
	rebuilt lanes check input-mail-filters);

sub add {
	my ($self, $kind, $word, $where, $text) = @_;
	if ($kind eq 'obstacle' && $self->{accepted}{$word} && !$never{$word}) {
		$kind = 'accepted';
	}
	push @{$self->{list}}, { kind => $kind, word => $word, where => $where, text => $text,
		order => [qw(kind word where text)] };
}

sub obstacles {
	my ($self) = @_;
	return grep { $_->{kind} eq 'obstacle' } @{$self->{list}};
}

my @headings = (obstacle => 'Obstacles', accepted => 'Accepted obstacles',
	kept => 'Left alone', note => 'Notes');

# A paragraph, wrapped and indented.
sub paragraph {
	my ($text, $first, $indent) = @_;
	my ($line, $result) = ($first, '');
	for my $word (split / /, escape($text)) {
		if (length($line) + 1 + length $word > 79 && $line =~ /\S/) {
			$result .= "$line\n";
			$line = $indent . $word;
		} else {
			$line .= ($line =~ /\S\z/ ? ' ' : '') . $word;
		}
	}
	return "$result$line\n";
}

sub text {
	my ($self, @kinds) = @_;
	my $result = '';
	for (my $i = 0; $i < @headings; $i += 2) {
		my ($kind, $heading) = @headings[$i, $i + 1];
		my @some = grep { $_->{kind} eq $kind } @{$self->{list}};
		next if !@some || (@kinds && !grep { $_ eq $kind } @kinds);
		$result .= "$heading\n";
		for my $one (@some) {
			my $where = $one->{where} eq '' ? '' : "$one->{where}: ";
			$result .= paragraph("$where$one->{text} [$one->{word}]", '  - ', '    ');
		}
	}
	return $result;
}

1;
