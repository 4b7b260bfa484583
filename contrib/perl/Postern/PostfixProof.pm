# SPDX-License-Identifier: ISC
# PURPOSE  Proves by postconf(1) that a new master.cf changes nothing but what was meant.
# MODEL    Two private directories, one with the old and one with the new file: every
#          service must be told the same by both, the chosen ones but for our settings.
package Postern::PostfixProof;
use strict;
use warnings;
use File::Temp ();
use Postern::PostfixFiles;
use Postern::PostfixLanes;
use Postern::PostfixSite;
use Postern::Tool;

# A private directory with these two files.
sub directory_with {
	my ($main, $master) = @_;
	my $directory = File::Temp->newdir('postern-setup.XXXXXXXX', TMPDIR => 1);
	for my $pair (['main.cf', $main], ['master.cf', $master]) {
		my $file;
		open($file, '>:raw', "$directory/$pair->[0]") && print({$file} $pair->[1]) &&
		    close $file or fail(EX_CANTCREAT, "$directory/$pair->[0]: $!");
		# Postfix would wait for a file that has just been written to be a second old.
		utime 1e9, 1e9, "$directory/$pair->[0]";
	}
	return $directory;
}

# service/type => its line, options and all, in postconf's own words
sub lines_of {
	my ($site, $directory) = @_;
	my %found;
	for (split /\n/, $site->ask('-c', $directory, '-M')) {
		$found{"$1/$2"} .= Postern::PostfixSite::plain($_) . "\n" if /\A(\S+)\s+(\S+)\s/;
	}
	return \%found;
}

sub columns {
	return join ' ', (split ' ', $_[0] // '')[0 .. 7];
}

# Texts of what would be other than meant.  INSERTIONS: as for Lines, with `key`.
sub differences {
	my ($site, $old, $new, @insertions) = @_;
	# As it stands on the disk, it was asked about already.
	my @directories = (($old eq $site->{'master.text'} ? $site->{asked} :
		directory_with($site->{'main.text'}, $old)), directory_with($site->{'main.text'}, $new));
	my ($before, $after) = map { lines_of($site, "$_") } @directories;
	my ($had, $has) = ($site->{override}, $site->overrides("$directories[1]"));
	my %meant = map { $_->{key} => $_ } @insertions;
	my @found;

	for my $key (sort keys %{{%$before, %$after}}) {
		my ($was, $is) = ($before->{$key} // '', $after->{$key} // '');
		if (!$meant{$key}) {
			push @found, "$key would change" if $was ne $is &&
			    !($was eq '' && Postern::PostfixLanes::is_ours($key));
			next;
		}
		push @found, "$key: " . columns($is) if columns($was) ne columns($is);
		next if $meant{$key}{replace};
		my %wanted = (%{$had->{$key} || {}}, map { $_->[0] => Postern::PostfixSite::plain($_->[1]) }
			Postern::PostfixFiles::settings_of(Postern::PostfixFiles::words(
			join ' ', @{$meant{$key}{lines}})));
		for my $name (sort keys %{{%wanted, %{$has->{$key} || {}}}}) {
			my @both = map { defined $_ ? Postern::PostfixSite::plain($_) : "\0" }
			    $wanted{$name}, $has->{$key}{$name};
			push @found, "$key: $name" if $both[0] ne $both[1];
		}
	}
	return @found;
}

1;
