# SPDX-License-Identifier: ISC
# PURPOSE  What the setup programs share: exit codes, other programs, text for people
#          and for programs.
# MODEL    Modules of Debian's perl-base alone: an admin's machine has no others for
#          sure.  Text is bytes.  No shell is ever started, and nothing that was read
#          is ever evaluated.
# ERRORS   fail(CODE, TEXT) ends the program: die with a reference that main catches.
package Postern::Tool;
use strict;
use warnings;
use Exporter 'import';
use File::Temp ();
use POSIX ();

our @EXPORT = qw(EX_OK EX_USAGE EX_DATAERR EX_UNAVAILABLE EX_SOFTWARE EX_OSERR EX_CANTCREAT
	EX_IOERR EX_TEMPFAIL EX_NOPERM EX_CONFIG
	fail run find_program read_file escape number json json_read diff_of own_words);

# sysexits(3)
use constant {
	EX_OK => 0, EX_USAGE => 64, EX_DATAERR => 65, EX_UNAVAILABLE => 69, EX_SOFTWARE => 70,
	EX_OSERR => 71, EX_CANTCREAT => 73, EX_IOERR => 74, EX_TEMPFAIL => 75, EX_NOPERM => 77,
	EX_CONFIG => 78,
};
use constant PROGRAM_SECONDS => 60;

sub fail {
	my ($code, $text) = @_;
	die { code => $code, text => $text };
}

# Programs run with a plain environment and are found in the system's places.
sub own_words {
	$ENV{PATH} = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
	$ENV{LC_ALL} = 'C';
	delete @ENV{qw(MAIL_CONFIG MAIL_VERBOSE MAIL_DEBUG MAIL_LOGTAG IFS CDPATH ENV BASH_ENV
		DIFF_OPTIONS POSIXLY_CORRECT TZ M4PATH)};
	umask 077;
}

sub find_program {
	my ($name) = @_;
	return $name =~ m{/} && -x $name ? $name : undef if $name =~ m{/};
	for my $directory (split /:/, $ENV{PATH}) {
		return "$directory/$name" if -f "$directory/$name" && -x _;
	}
	return undef;
}

# run(\%how, PROGRAM, ARGUMENT...): exit code (or 128 + signal), what it wrote, and its
# complaints.  %how: directory, seconds.
sub run {
	my ($how, @words) = @_;
	my ($out, $errors) = map { File::Temp->new(TEMPLATE => 'postern-setup.XXXXXXXX',
		TMPDIR => 1) } 1, 2;
	my $pid = fork;
	fail(EX_OSERR, "fork: $!") if !defined $pid;
	if ($pid == 0) {
		no warnings 'exec';
		umask 022;		# what others make is for others
		open(STDIN, '<', '/dev/null') && open(STDOUT, '>&', $out) &&
		    open(STDERR, '>&', $errors) &&
		    (!defined $how->{directory} || chdir $how->{directory}) &&
		    exec { $words[0] } @words;
		POSIX::_exit(127);
	}
	my $timed_out = 0;
	local $SIG{ALRM} = sub { $timed_out = 1; kill 'KILL', $pid };
	alarm($how->{seconds} || PROGRAM_SECONDS);
	1 while waitpid($pid, 0) == -1 && $!{EINTR};
	my $status = $?;
	alarm 0;
	fail(EX_TEMPFAIL, "$words[0] did not finish in time") if $timed_out;
	my @texts = map { seek $_, 0, 0; local $/; scalar(<$_>) // '' } $out, $errors;
	return ($status & 127 ? 128 + ($status & 127) : $status >> 8, @texts);
}

sub read_file {
	my ($path) = @_;
	open(my $file, '<:raw', $path) or
	    fail($!{EACCES} || $!{EPERM} ? EX_NOPERM : EX_UNAVAILABLE, "$path: $!");
	local $/;
	my $text = <$file>;
	fail(EX_IOERR, "$path: $!") if !defined $text && $!;
	close $file;
	return $text // '';
}

# For a terminal: nothing but printable ASCII, and what `more` allows.
sub escape {
	my ($text, $more) = @_;
	$more //= '';
	$text =~ s/([^\x20-\x7e\Q$more\E])/sprintf '\\x%02x', ord $1/ge;
	return $text;
}

my $utf8 = qr/[\x20\x21\x23-\x5b\x5d-\x7e]|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|
	[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]|\xf0[\x90-\xbf][\x80-\xbf]{2}|
	[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}/x;
my %short = ("\n" => '\\n', "\t" => '\\t', "\r" => '\\r', '"' => '\\"', '\\' => '\\\\');

sub json_text {
	my ($text) = @_;
	my $json = '';
	while ($text =~ /\G(?:($utf8+)|(.))/gs) {
		$json .= $1 // $short{$2} // (ord $2 < 0x20 || ord $2 == 0x7f ?
			sprintf('\\u%04x', ord $2) : sprintf('\\\\x%02x', ord $2));
	}
	return "\"$json\"";
}

sub number {
	my ($value) = @_;
	return bless \$value, 'Postern::Number';
}

# Hashes are written in the order of their key "order", or by name; \1 and \0 are truths,
# number(N) a number, all else text.
sub json {
	my ($value, $indent) = @_;
	$indent //= '';
	return 'null' if !defined $value;
	my $kind = ref $value;
	return $$value ? 'true' : 'false' if $kind eq 'SCALAR';
	return $$value if $kind eq 'Postern::Number';
	return json_text($value) if !$kind;
	my ($open, $close, @parts) = $kind eq 'ARRAY' ? ('[', ']') : ('{', '}');
	if ($kind eq 'ARRAY') {
		@parts = map { json($_, "$indent  ") } @$value;
	} else {
		my @names = $value->{order} ? @{$value->{order}} : sort keys %$value;
		@parts = map { json_text($_) . ': ' . json($value->{$_}, "$indent  ") } @names;
	}
	return "$open$close" if !@parts;
	return $open . join(',', map { "\n$indent  $_" } @parts) . "\n$indent$close";
}

# What json() writes, or posternctl --json: truths are 1 and 0.  undef: it is none.
sub json_read {
	my ($text) = @_;
	my $value = json_value(\$text, 0);
	return $text =~ /\G\s*\z/gc ? $value : undef;
}

my %long = map { $short{$_} => $_ } keys %short;

sub json_value {
	my ($text, $depth) = @_;
	return undef if $depth > 50;
	if ($$text =~ /\G\s*"((?:[^"\\]|\\.)*)"/gcs) {
		my $found = $1;
		$found =~ s/\\u00([0-9a-fA-F]{2})|(\\.)/defined $1 ? chr hex $1 : $long{$2} \/\/ substr $2, 1/ge;
		return $found;
	}
	return $1 if $$text =~ /\G\s*(-?[0-9][0-9.eE+-]*)/gc;
	return $1 eq 'true' ? 1 : $1 eq 'false' ? 0 : undef if $$text =~ /\G\s*(true|false|null)/gc;
	if ($$text =~ /\G\s*\[/gc) {
		my @list;
		until ($$text =~ /\G\s*\]/gc) {
			return undef if @list && $$text !~ /\G\s*,/gc;
			push @list, json_value($text, $depth + 1);
		}
		return \@list;
	}
	return undef if $$text !~ /\G\s*\{/gc;
	my %table;
	until ($$text =~ /\G\s*\}/gc) {
		return undef if %table && $$text !~ /\G\s*,/gc;
		return undef if $$text !~ /\G\s*"((?:[^"\\]|\\.)*)"\s*:/gc;
		$table{$1} = json_value($text, $depth + 1);
	}
	return \%table;
}

# The change of a file as diff -u tells it; '' where there is none.
sub diff_of {
	my ($path, $old, $new) = @_;
	return '' if $old eq $new;
	my @files = map {
		my $file = File::Temp->new(TEMPLATE => 'postern-setup.XXXXXXXX', TMPDIR => 1);
		binmode $file;
		print {$file} $_;
		close $file;
		$file;
	} $old, $new;
	my ($code, $text) = run({}, 'diff', '-u', '--label', $path, '--label', "$path (new)",
		'--', $files[0]->filename, $files[1]->filename);
	fail(EX_SOFTWARE, 'diff(1) not found or failed') if $code > 1;
	return $text;
}

1;
