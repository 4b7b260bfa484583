# SPDX-License-Identifier: ISC
# PURPOSE  look, show, make and undo, for a site of any kind.
# MODEL    A site is an object of PostfixSetup or SendmailSetup, which have
#            title(FINDINGS)        lines for people, once planned
#            facts()                the same for --json: name => value
#            files()                paths of what may change, or fail()
#            plan(FINDINGS, MAKING) { path, now, before, after }...; MAKING: for `make`
#            without_ours(TEXTS)    path => text as it would be without us; or undef, why
#            look_before_undo(FINDINGS, FILES)
#            checked()              why the mail server would not take it, or undef
#            reload()               what was done about it
#            is_same(PATH, TEXT, TEXT)  do two texts of a file mean the same?  It may be missing
#            program, lines         its name, and the Lines of its files
# ERRORS   Exit codes are those of sysexits(3).
package Postern::Command;
use strict;
use warnings;
use Getopt::Long ();
use Postern::Changes;
use Postern::Findings;
use Postern::Lines;
use Postern::Tool;

my %usual = ('json' => 1, 'dry-run|n' => 1, 'no-reload' => 1, 'only-ours' => 1, 'accept=s@' => 1,
	'store=s' => 1, 'help|h' => 1);

# Ends the program.  TOOL: { usage, options, open => sub (\%options) -> site }.
sub main {
	my ($tool, @words) = @_;
	own_words();
	my $code = eval { begin($tool, @words) };
	if (!defined $code) {
		my $problem = $@;
		($code, my $text) = ref $problem eq 'HASH' ? @$problem{qw(code text)} :
		    (EX_SOFTWARE, $problem);
		$text =~ s/\s+\z//;
		print STDERR "$tool->{name}: ", escape($text, "\n"), "\n";
	}
	if (!close STDOUT) {
		print STDERR "$tool->{name}: cannot write standard output: $!\n";
		$code = EX_IOERR if $code == EX_OK;
	}
	exit $code;
}

sub begin {
	my ($tool, @words) = @_;
	my %options = (store => $tool->{store});
	my $complaint;
	local $SIG{__WARN__} = sub { $complaint = $_[0] };
	Getopt::Long::Configure(qw(bundling no_auto_abbrev gnu_compat));
	Getopt::Long::GetOptionsFromArray(\@words, \%options, keys %usual, @{$tool->{options}});
	local $SIG{__WARN__} = 'DEFAULT';
	fail(EX_USAGE, "$complaint$tool->{usage}") if $complaint;
	if ($options{help}) {
		print $tool->{usage};
		return EX_OK;
	}
	my $command = shift @words // 'look';
	$command = 'show' if $command eq 'make' && $options{'dry-run'};
	my $work = { look => \&look, show => \&show, make => \&make, undo => \&undo }->{$command};
	fail(EX_USAGE, (!$work ? "unknown command \"$command\"" :
		"$command: unexpected argument \"$words[0]\"") . "\n$tool->{usage}") if !$work || @words;
	$options{command} = $command;
	my $store_directory = $options{store};
	fail(EX_USAGE, "--store: the path must begin with /\n") if $store_directory !~ m{\A/};
	my $self = bless { options => \%options, told => {} }, __PACKAGE__;
	my $site = $self->{site} = $tool->{open}(\%options);
	$self->{store} = Postern::Changes->new($store_directory, $site->{name});
	$self->{findings} = Postern::Findings->new(map { $_ => 1 } @{$options{accept} || []});
	my $code = $work->($self);
	print json($self->whole), "\n" if $options{json};
	return $code;
}

# --- what is told -----------------------------------------------------------------

sub say_text {
	my ($self, @lines) = @_;
	print map { escape($_, "\n\t") } @lines if !$self->{options}{json};
}

sub whole {
	my ($self) = @_;
	my @facts = $self->{site}->facts;
	my %told = (%{$self->{told}}, @facts, findings => $self->{findings}{list});
	$told{files} = [map { { path => $_->{path}, state => $_->{state}, diff => $_->{diff},
		order => [qw(path state diff)] } } @{$self->{files} || []}];
	$told{order} = [(map { $facts[2 * $_] } 0 .. @facts / 2 - 1),
		sort(keys %{$self->{told}}), qw(findings files)];
	return \%told;
}

# --- the plan ---------------------------------------------------------------------

# What the files are now, and what they would be.  Exit code: 69 with obstacles.
sub plan {
	my ($self, $making) = @_;
	my $manifest = readable_manifest($self->{store});
	my $site = $self->{site};
	$site->{earlier} = $manifest;
	$site->take_options($manifest->{options}) if $manifest;
	my @files = $site->plan($self->{findings}, $making);
	my %left = map { $_->{path} => $_ } $manifest ? @{$manifest->{files}} : ();
	for my $file (@files) {
		my $now = $file->{now};
		$file->{diff} = diff_of($file->{path}, $now, $file->{after});
		$file->{state} = $now eq $file->{before} ? 'as it was' :
		    $now eq $file->{after} ? 'made' : 'made, out of date';
	}
	$self->{files} = \@files;
	$self->{told}{made} = $manifest ? $manifest->{made} : undef;
	return $self->{findings}->obstacles ? EX_UNAVAILABLE : EX_OK;
}

# Where only root may look, others do without.
sub readable_manifest {
	my ($store) = @_;
	return -r "$store->{place}/manifest" ? $store->manifest : undef;
}

sub told_obstacles {
	my ($self) = @_;
	$self->{told}{result} = 'refused';
	return EX_UNAVAILABLE;
}

sub look {
	my ($self) = @_;
	my $code = $self->plan(0);
	$self->say_text($self->{site}->title($self->{findings}), $self->{findings}->text,
		$self->{site}->hints);
	for my $file (@{$self->{files}}) {
		$self->say_text("$file->{path}: $file->{state}\n");
	}
	$self->say_text($code != EX_OK ? "Remove these obstacles before \"make\".\n" :
		(grep { $_->{diff} ne '' } @{$self->{files}}) ?
		"\"$self->{site}{program} show\" shows the changes, \"make\" applies them.\n" :
		'Nothing to do; "undo' . $self->how_to_undo . "\" removes Postern\'s lines.\n");
	return $code;
}

# What undo wants besides, where somebody has edited a file since.
sub how_to_undo {
	my ($self) = @_;
	my $manifest = $self->{site}{earlier};
	return $manifest && $self->edited_files($manifest) ? ' --only-ours' : '';
}

sub show {
	my ($self) = @_;
	my $code = $self->plan(0);
	$self->say_text($self->{findings}->text('obstacle')) if $code != EX_OK;
	$self->say_text(map { $_->{diff} } @{$self->{files}});
	return $code;
}

# --- make -------------------------------------------------------------------------

# A run that was killed between two files: from the beginning.
sub mend {
	my ($self) = @_;
	my $manifest = $self->{store}->manifest or return;
	my %states = map { Postern::Changes::state_of($_) => 1 }
	    grep { $_->{before} ne $_->{after} } @{$manifest->{files}};
	return if !$states{before} || !$states{after} || keys %states > 2;
	$self->{site}->take_options($manifest->{options});
	$self->{store}->undo({});
}

sub make {
	my ($self) = @_;
	my ($site, $store) = @$self{qw(site store)};
	$store->lock;
	$self->mend;
	my $code = $self->plan(1);
	my @changed = grep { $_->{diff} ne '' } @{$self->{files}};
	if ($code == EX_OK && defined(my $why = $site->checked)) {
		$self->{findings}->add('obstacle', 'check', '', $why);
		$code = EX_UNAVAILABLE;
	}
	$self->say_text($site->title($self->{findings}), $self->{findings}->text, $site->hints);
	if ($code != EX_OK) {
		$self->say_text("Nothing was changed.\n");
		return $self->told_obstacles;
	}
	if (!@changed && $self->{told}{made}) {
		$self->say_text("Nothing to do: all changes are made.\n");
		$self->{told}{result} = 'unchanged';
		return EX_OK;
	}
	$self->say_text(map { $_->{diff} } @changed);
	$store->make($site->options_to_keep, @{$self->{files}});
	if (defined(my $why = $site->checked)) {
		$store->undo({});
		fail(EX_CONFIG, "$why\nThe original files were restored.");
	}
	$_->{state} = 'made' for @{$self->{files}};
	my $what = $self->{options}{'no-reload'} ? 'Not reloaded (--no-reload).' : $site->reload;
	$self->say_text("Changes made.  $what\nTo undo: $site->{program} undo\n");
	@{$self->{told}}{qw(result reload)} = ('made', $what);
	return EX_OK;
}

# --- undo -------------------------------------------------------------------------

# Files that are neither as they were nor as we left them.
sub edited_files {
	my ($self, $manifest) = @_;
	my $site = $self->{site};
	my $is_same = $site->can('is_same') ? sub { $site->is_same(@_) } : undef;
	for my $one (@{$manifest->{files}}) {
		$one->{state} = Postern::Changes::state_of($one, $is_same);
		$one->{now} = $one->{state} eq 'missing' ? '' : read_file($one->{path});
		$one->{wanted} = $one->{before};
	}
	return grep { $_->{state} eq 'edited' || $_->{state} eq 'missing' } @{$manifest->{files}};
}

sub undo {
	my ($self) = @_;
	my ($site, $store) = @$self{qw(site store)};
	if ($self->{options}{'dry-run'}) {
		fail(EX_NOPERM, 'undo: needs root') if $store->is_hidden;
	} else {
		$store->lock;
	}
	my $manifest = $store->manifest || $self->lost_manifest;
	if (!$manifest) {
		$self->say_text("Nothing to undo.\n");
		$self->{told}{result} = 'nothing';
		return EX_OK;
	}
	$site->take_options($manifest->{options});
	my @edited = $self->edited_files($manifest);
	for my $one (grep { $_->{state} eq 'missing' } @edited) {
		fail(EX_DATAERR, "$one->{path} is missing; the original is $one->{before_file}");
	}
	$self->wanted_without_ours($manifest, @edited) if @edited;
	$_->{diff} = diff_of($_->{path}, $_->{now}, $_->{wanted}) for @{$manifest->{files}};
	$self->{files} = $manifest->{files};
	$site->look_before_undo($self->{findings}, $self->{files});
	if ($self->{findings}->obstacles) {
		$self->say_text($self->{findings}->text, "Nothing was changed.\n");
		return $self->told_obstacles;
	}
	return $self->tell_edited(@edited) if @edited && !$self->{options}{'only-ours'};
	return $self->take_back($manifest, scalar @edited);
}

# The marks are there, and what is known of them is not.
sub lost_manifest {
	my ($self) = @_;
	my $site = $self->{site};
	my @files = grep { $site->{lines}->has_ours(read_file($_)) } $site->files;
	return undef if !@files;
	$self->{lost} = 1;
	return { options => {}, files => [map { { path => $_, before => "\0", after => "\0",
		also => "\0" } } $site->files] };
}

# Gives each edited file the text that it has without our lines.
sub wanted_without_ours {
	my ($self, $manifest, @edited) = @_;
	my ($texts, $why) = $self->{site}->without_ours({ map { $_->{path} => $_->{now} }
		@{$manifest->{files}} });
	fail(EX_DATAERR, "$edited[0]{path} was edited since, and Postern's lines cannot be "
		. "identified: $why") if !$texts;
	$_->{wanted} = $texts->{$_->{path}} for @{$manifest->{files}};
}

sub tell_edited {
	my ($self, @edited) = @_;
	$self->{told}{result} = 'edited';
	$self->say_text($self->{lost} ? "Postern's lines are there, but the original "
		. "files are not known.\n" : '', map { "$_->{path} was edited since: it is neither "
		. "the original nor as this program left it.\n" } $self->{lost} ? () : @edited);
	$self->say_text("Nothing was changed.  \"$self->{site}{program} undo --only-ours\" would remove "
		. "only Postern's lines:\n", map { $_->{diff} } @{$self->{files}});
	return EX_DATAERR;
}

sub take_back {
	my ($self, $manifest, $is_edited) = @_;
	my ($site, $store) = @$self{qw(site store)};
	$self->say_text(map { $_->{diff} } @{$self->{files}});
	if ($self->{options}{'dry-run'}) {
		$self->{told}{result} = 'would be undone';
		return EX_OK;
	}
	if ($self->{lost}) {
		$store->make({}, map { { path => $_->{path}, before => $_->{wanted},
			now => $_->{now}, after => $_->{now} } } @{$manifest->{files}});
	}
	$store->undo({ map { $_->{path} => $_->{wanted} } @{$manifest->{files}} });
	$_->{state} = $is_edited ? 'without ours' : 'as it was' for @{$self->{files}};
	my $left_alone = $self->{options}{'no-reload'};
	my $why = $left_alone ? undef : $site->checked;
	my $what = $left_alone ? 'Not reloaded (--no-reload).' :
	    defined $why ? "Not reloaded: $why" : $site->reload;
	$self->say_text($is_edited ? 'Postern\'s lines are removed.' : 'The original files are restored.', "  $what\n");
	@{$self->{told}}{qw(result reload)} = ($is_edited ? 'taken out' : 'undone', $what);
	return defined $why ? EX_CONFIG : EX_OK;
}

1;
