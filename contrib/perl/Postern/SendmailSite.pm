# SPDX-License-Identifier: ISC
# PURPOSE  What a Sendmail is built from, and what that makes.
# MODEL    Lines of sendmail.mc are found by the macros that they begin with; what they
#          come to is read from the sendmail.cf that m4(1) makes of them, as for every
#          build.  A sendmail.cf that is not what sendmail.mc makes is not touched.
# ERRORS   fail() where a file or m4 is missing; build() returns why it fails.
package Postern::SendmailSite;
use strict;
use warnings;
use File::Basename qw(dirname);
use File::Temp ();
use Postern::Lines;
use Postern::Tool;

# A host name without a dot makes Sendmail wait for a minute.
use constant SENDMAIL_SECONDS => 150;

# new(\%options): mc, cf, cf-dir, sendmail
sub new {
	my ($class, $options) = @_;
	my $self = bless {}, $class;
	$self->{mc} = $options->{mc} // '/etc/mail/sendmail.mc';
	$self->{cf} = $options->{cf} // $self->{mc} =~ s/\.mc\z/.cf/r;
	$self->{macros} = $options->{'cf-dir'} // '/usr/share/sendmail/cf';
	$self->{sendmail} = find_program($options->{sendmail} // 'sendmail');
	return $self;
}

# --- sendmail.mc ------------------------------------------------------------------

my @macros = (
	[ filter => qr/\A\s*INPUT_MAIL_FILTER\(\s*`?([\w.-]+)/ ],
	[ other_filter => qr/\A\s*MAIL_FILTER\(\s*`?([\w.-]+)/ ],
	[ filters => qr/\A\s*define\(\s*`confINPUT_MAIL_FILTERS'\s*,\s*(.*)/ ],
	[ macros => qr/\A\s*define\(\s*`confMILTER_MACROS_CONNECT'\s*,\s*(.*)/ ],
	[ mailer => qr/\A\s*(MAILER\(|MAILER_DEFINITIONS)/ ],
	[ local => qr/\A\s*(LOCAL_[A-Z_0-9]+)/ ],
	[ compat => qr/\A\s*(FEATURE\(\s*`?compat_check)/ ],
	[ rules => qr/\A(S[A-Za-z_]\w*)/ ],
	[ include => qr/\A\s*s?include\(\s*`([^']*)'/ ],
	[ daemon => qr/\A\s*DAEMON_OPTIONS\(\s*(.*)/ ],
	[ limits => qr/\A\s*FEATURE\(\s*`?(conncontrol|ratecontrol)/ ],
	[ map => qr/\A(K\S+)/ ],
);

# kind => [{ line (from 0), text }...], without what m4 throws away.
sub places {
	my ($text) = @_;
	my (%found, $away);
	my @lines = Postern::Lines::split_lines($text);
	for my $number (0 .. $#lines) {
		my $line = $lines[$number];
		$away = $1 if $line =~ /\A\s*divert\(\s*(-?[0-9]*)\s*\)/;
		next if $line =~ /\A\s*dnl\b/;
		for my $macro (@macros) {
			next if $line !~ $macro->[1];
			my $text = $1;
			# the others change where text goes by themselves
			next if ($away // 0) eq '-1' && $macro->[0] =~ /\A(?:rules|map)\z/;
			push @{$found{$macro->[0]}}, { line => $number, text => $text };
			$away = undef if $macro->[0] eq 'local';
		}
	}
	return \%found;
}

# The list that a define has on one line between quotes, or undef.
sub list_of {
	my ($text) = @_;
	return $text =~ /\A`([\w{}, .-]*)'\s*\)/ ? $1 : undef;
}

# --- sendmail.cf ------------------------------------------------------------------

# The sendmail.cf that a text of sendmail.mc makes; undef and why it makes none.
sub build {
	my ($self, $text) = @_;
	return (undef, 'm4 not found') if !find_program('m4');
	my $directory = File::Temp->newdir('postern-setup.XXXXXXXX', TMPDIR => 1);
	open(my $file, '>:raw', "$directory/sendmail.mc") or fail(EX_CANTCREAT, "$directory: $!");
	print {$file} $text;
	close $file or fail(EX_CANTCREAT, "$directory: $!");
	my $is_whole = $text =~ m{^\s*include\(.*m4/cf\.m4}m;
	my ($code, $cf, $errors) = run({ directory => $is_whole ? dirname($self->{mc}) :
		"$self->{macros}/cf" }, find_program('m4'), $is_whole ? () :
		("-D_CF_DIR_=$self->{macros}/", "$self->{macros}/m4/cf.m4"), "$directory/sendmail.mc");
	return (undef, $errors) if $code != 0 || $errors =~ /ERROR/;
	return (undef, 'm4 produces no output from it') if $cf !~ /^S/m;
	return $cf;
}

# A sendmail.cf that m4 made of the text MC, with what the one that is there (NOW) has besides:
# Debian's Makefile writes sendmail.mc behind it, as a comment.
sub like {
	my ($self, $now, $cf, $mc) = @_;
	return $cf if $now !~ /^(### \S+ ###\n)(?:#.*\n)*\z/m || $cf =~ /^\Q$1\E/m;
	return $cf . $1 . join '', map { "# $_" } Postern::Lines::split_lines($mc);
}

# What of it counts: neither comments nor empty lines.
sub bare {
	my ($cf) = @_;
	return join '', map { "$_\n" } grep { !/\A(?:#|\s*\z)/ } split /\n/, $cf;
}

sub option {
	my ($cf, $name) = @_;
	return $cf =~ /^O \Q$name\E=(.*)$/mi ? $1 : undef;
}

# The rules of a ruleset, wherever they stand.
sub rules {
	my ($cf, $name) = @_;
	my ($inside, @found) = (0);
	for (split /\n/, bare($cf)) {
		$inside = $1 eq $name if /\AS\s*(\w+)/;
		push @found, $_ if $inside && /\AR/;
	}
	return @found;
}

# Members of class w, as far as sendmail.cf has them, and in one line each the files that it names.
sub domain_words {
	my ($self) = @_;
	my @found;
	for (split /\n/, bare($self->{built} // '')) {
		push @found, split ' ', $1 if /\AC(?:w|\{w\})\s*(.*)/;
		next if !m{\AF(?:w|\{w\})\s*(?:-o\s+)?(\S+)};
		my $file = $1;
		push @found, $file =~ m{\A/} && -r $file ?
		    map { /\A\s*([^#\s]+)/ ? $1 : () } split /\n/, read_file($file) : $file;
	}
	return @found;
}

# Why Sendmail would not take it, or undef.
sub refusal {
	my ($self, $cf) = @_;
	return 'sendmail not found: set --sendmail' if !$self->{sendmail};
	my $file = File::Temp->new(TEMPLATE => 'postern-setup.XXXXXXXX', TMPDIR => 1);
	print {$file} $cf;
	close $file;
	my ($code, $text, $errors) = run({ seconds => SENDMAIL_SECONDS }, $self->{sendmail}, '-C', "$file", '-bt');
	my ($fault) = "$errors\n$text" =~ /^(.*\Q$file\E: line.*)$/m;
	return $fault if defined $fault;
	return $code == 0 ? undef : "sendmail -bt: exit code $code: $errors$text";
}

# What it was compiled with: words.
sub compiled {
	my ($self) = @_;
	fail(EX_UNAVAILABLE, 'sendmail not found: set --sendmail')
	    if !$self->{sendmail};
	my ($code, $text, $errors) = run({ seconds => SENDMAIL_SECONDS }, $self->{sendmail}, '-d0.1', '-bt', '-C', $self->{cf});
	my ($words) = "$text$errors" =~ /Compiled with:((?:.*\n\s)*.*)/;
	return map { $_ => 1 } split ' ', $words // '';
}

sub version {
	my ($self) = @_;
	return ($self->{built} // '') =~ /^DZ(\S+)/m ? $1 : undef;
}

1;
