# SPDX-License-Identifier: ISC
# PURPOSE  Changes of files that can be undone to the last byte.
# MODEL    A directory of root's own for each site holds `manifest` and copies of each file
#          as it was (before), as we leave it (after), and as we had left it the last time
#          (also).  Copies and manifest are on the disk before a file of the site is
#          written, and each file changes by rename: whoever dies between any two writes
#          leaves files that are `before` or `after`, and a manifest that knows both.
# ERRORS   fail() of Tool; nothing of the site is half written.
package Postern::Changes;
use strict;
use warnings;
use Cwd ();
use Fcntl qw(:DEFAULT :flock :mode);
use IO::Handle;
use Postern::Tool;

use constant NEW => '.postern-new';	# beside the file: what becomes of it

sub name_of {
	my ($text) = @_;
	$text =~ s/([^A-Za-z0-9._-])/sprintf '%%%02x', ord $1/ge;
	return $text;
}

sub text_of {
	my ($name) = @_;
	$name =~ s/%([0-9a-f]{2})/chr hex $1/ge;
	return $name;
}

# new(STORE, SITE): nothing is made yet.
sub new {
	my ($class, $store, $site) = @_;
	return bless { store => $store, place => "$store/" . name_of($site) }, $class;
}

# --- the disk ---------------------------------------------------------------------

sub sync_directory {
	my ($path) = @_;
	my $directory;
	sysopen($directory, $path, O_RDONLY | O_DIRECTORY) && $directory->sync or
	    fail(EX_IOERR, "$path: $!");
}

sub make_directory {
	my ($path) = @_;
	my ($parent) = $path =~ m{\A(.*)/[^/]+\z};
	make_directory($parent) if $parent ne '' && !-d $parent;
	mkdir($path, 0700) || $!{EEXIST} or
	    fail($!{EACCES} ? EX_NOPERM : EX_CANTCREAT, "cannot create directory $path: "
		. ($!{EACCES} ? 'needs root' : $!));
	sync_directory($parent eq '' ? '/' : $parent);
}

# Ours alone: who could write there would choose what is put into the site's files.
sub check_place {
	my ($path) = @_;
	my @status = lstat $path or fail(EX_CANTCREAT, "$path: $!");
	fail(EX_NOPERM, "$path: not a directory that only this user can write to")
	    if !S_ISDIR($status[2]) || $status[4] != $> || ($status[2] & 022);
}

# Whole on the disk, under its own name; `like`: a file whose owner, mode and other
# attributes it takes.
sub write_file {
	my ($path, $text, $like) = @_;
	unlink $path;
	if (defined $like) {
		my ($code, undef, $errors) = run({}, 'cp', '-aT', '--', $like, $path);
		fail(EX_CANTCREAT, "cannot copy $like: $errors") if $code != 0;
	}
	sysopen(my $file, $path, O_WRONLY | O_NOFOLLOW | (defined $like ? O_TRUNC : O_CREAT | O_EXCL),
		0600) or fail($!{EACCES} || $!{EROFS} ? EX_NOPERM : EX_CANTCREAT, "$path: $!");
	for (my $at = 0; $at < length $text;) {
		my $count = syswrite($file, $text, length($text) - $at, $at);
		fail(EX_IOERR, "$path: $!") if !defined $count;
		$at += $count;
	}
	$file->sync && close $file or fail(EX_IOERR, "$path: $!");
}

sub move {
	my ($from, $to) = @_;
	rename $from, $to or fail(EX_IOERR, "cannot rename $from to $to: $!");
	my ($directory) = $to =~ m{\A(.*)/};
	sync_directory($directory eq '' ? '/' : $directory);
}

# --- the manifest -----------------------------------------------------------------

# May only another user, root, see what was made here?
sub is_hidden {
	my ($self) = @_;
	return grep { -d && !-x _ } $self->{store}, $self->{place};
}

# One run of us at a time.
sub lock {
	my ($self) = @_;
	fail(EX_NOPERM, "$self->{store}: needs root") if $self->is_hidden;
	make_directory($_) for grep { !-d } $self->{store}, $self->{place};
	check_place($_) for $self->{store}, $self->{place};
	sysopen($self->{lock}, "$self->{store}/lock", O_RDWR | O_CREAT | O_NOFOLLOW, 0600) or
	    fail(EX_CANTCREAT, "$self->{store}/lock: $!");
	flock($self->{lock}, LOCK_EX | LOCK_NB) or
	    fail(EX_TEMPFAIL, 'another setup is running; try again later');
}

# What was made here: { made, options, files => [{ path, before, after, also, stamp }] },
# or undef.
sub manifest {
	my ($self) = @_;
	my $file = "$self->{place}/manifest";
	my (%found, $whole);
	return undef if !-e $file;
	check_place($self->{place});
	for my $line (split /\n/, read_file($file)) {
		my ($word, @rest) = map { text_of($_) } split / /, $line;
		$found{made} = $rest[0] if $word eq 'made';
		$found{options}{$rest[0]} = $rest[1] // '' if $word eq 'option';
		push @{$found{files}}, { path => $rest[0], copies => $rest[1], } if $word eq 'file';
		$whole = 1 if $word eq 'end';
	}
	fail(EX_DATAERR, "$file is damaged") if !$whole || !$found{files};
	for my $one (@{$found{files}}) {
		my $copies = "$self->{place}/$one->{copies}";
		$one->{before_file} = "$copies.before";
		$one->{before} = read_file("$copies.before");
		$one->{after} = read_file("$copies.after");
		$one->{also} = -e "$copies.also" ? read_file("$copies.also") : $one->{after};
	}
	return \%found;
}

# Is the file as it was (before), as we left it (after), or neither (edited, missing)?
# `is_same`, if it is given: (path, text, text): do these mean the same?
sub state_of {
	my ($one, $is_same) = @_;
	return 'missing' if !-e $one->{path};
	my $text = read_file($one->{path});
	return $text eq $one->{before} ? 'before' :
	    $text eq $one->{after} || $text eq $one->{also} ? 'after' :
	    !$is_same ? 'edited' :
	    $is_same->($one->{path}, $text, $one->{after}) ? 'after' :
	    $is_same->($one->{path}, $text, $one->{before}) ? 'before' : 'edited';
}

# make(\%options, { path, before, now, after }...): `before` is what undo is to leave, `now`
# what was looked at: where somebody has written since, nothing is made.
sub make {
	my ($self, $options, @files) = @_;
	for my $one (@files) {
		fail(EX_TEMPFAIL, "$one->{path} changed meanwhile; nothing was done, try again")
		    if read_file($one->{path}) ne $one->{now};
	}
	make_directory($self->{place}) if !-d $self->{place};
	my $earlier = $self->manifest;
	my %left = map { $_->{path} => $_ } $earlier ? @{$earlier->{files}} : ();
	my $number = 0;
	my $text = "made " . POSIX::strftime('%Y-%m-%dT%H:%M:%SZ', gmtime) . "\n";

	$number++ while -e "$self->{place}/$number.0.before";
	$text .= "option " . name_of($_) . ' ' . name_of($options->{$_}) . "\n"
	    for sort keys %$options;
	for my $i (0 .. $#files) {
		my ($one, $copies) = ($files[$i], "$self->{place}/$number.$i");
		my $old = $left{$one->{path}};
		# The time of the file as it was is that of its copy.
		write_file("$copies.before", $one->{before});
		touch("$copies.before", $old && $old->{before} eq $one->{before} ?
			$old->{before_file} : $one->{path});
		write_file("$copies.after", $one->{after});
		write_file("$copies.also", $one->{now});
		$text .= 'file ' . name_of($one->{path}) . " $number.$i\n";
	}
	write_file("$self->{place}/manifest.new", "${text}end\n");
	sync_directory($self->{place});
	move("$self->{place}/manifest.new", "$self->{place}/manifest");
	for my $one (@files) {
		next if $one->{now} eq $one->{after};
		write_file($one->{path} . NEW, $one->{after}, $one->{path});
		move($one->{path} . NEW, $one->{path});
	}
	$self->forget_but($number);
}

sub touch {
	my ($path, $like) = @_;
	my ($code, undef, $errors) = run({}, 'touch', '-cmr', $like, '--', $path);
	fail(EX_CANTCREAT, "cannot set the time of $path: $errors") if $code != 0;
}

# The copies of other times.
sub forget_but {
	my ($self, $number) = @_;
	opendir(my $directory, $self->{place}) or return;
	for my $name (readdir $directory) {
		unlink "$self->{place}/$name"
		    if $name eq 'manifest.new' || $name =~ /\A([0-9]+)\.[0-9]+\.\w+\z/ && $1 != $number;
	}
}

# The files as they were; `texts`: path => another text than that, where somebody edited.
# Owner and mode are those of now.
sub undo {
	my ($self, $texts) = @_;
	my $manifest = $self->manifest or return;
	for my $one (@{$manifest->{files}}) {
		my $text = $texts->{$one->{path}} // $one->{before};
		next if read_file($one->{path}) eq $text;
		write_file($one->{path} . NEW, $text, $one->{path});
		touch($one->{path} . NEW, $one->{before_file}) if $text eq $one->{before};
		move($one->{path} . NEW, $one->{path});
	}
	$self->forget($manifest);
}

# All is as it was: nothing of us is left, but the directory that we lock in.
sub forget {
	my ($self, $manifest) = @_;
	unlink $_->{path} . NEW for @{$manifest->{files}};
	unlink "$self->{place}/manifest" or fail(EX_IOERR, "$self->{place}/manifest: $!");
	sync_directory($self->{place});
	$self->forget_but(-1);
	rmdir $self->{place};
}

# The file that a name stands for, and why it cannot be changed, if it cannot.
sub real_file {
	my ($path) = @_;
	my $real = Cwd::realpath($path);
	my @status = defined $real ? stat $real : ();
	return ($path, "$path: $!") if !@status;
	return ($real, "$real is not a regular file") if !S_ISREG($status[2]);
	return ($real, "$real has $status[3] names (hard links); a change would keep only one")
	    if $status[3] > 1;
	return ($real, undef);
}

1;
