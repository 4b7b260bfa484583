# SPDX-License-Identifier: ISC
# Functions of contrib/quickstart, contrib/build-deb and tests/run-all (bash): Debian
# packages, a copy of Postfix aside, a copy of the sources.  Nothing here removes or
# reconfigures a package that the machine has, starts a service or enables one.

BUILD_PACKAGES="gcc make autoconf automake libc6-dev libmilter-dev libevent-dev libconfig-dev libpcre2-dev libseccomp-dev libncurses-dev libsystemd-dev"

package_installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Names of those that are not installed.
missing_packages() {
	local package
	for package in "$@"; do
		package_installed "$package" || printf '%s ' "$package"
	done
}

# Another package that is this machine's MTA, or nothing.
other_mta() {
	# shellcheck disable=SC2016
	dpkg-query -W -f '${db:Status-Status} ${Package} ${Provides}\n' 2>/dev/null |
		awk '$1 == "installed" && $2 != "postfix" && / mail-transport-agent/ { print $2; exit }'
}

apt_update_once() {
	[ -z "${APT_UPDATED:-}" ] || return 0
	apt-get update -q || return 1
	APT_UPDATED=yes
}

# package_plan PACKAGE...: what installing those that are missing comes to, in a line;
# nothing where none is.
package_plan() {
	local package known=''
	for package in $(missing_packages "$@"); do
		apt-cache show "$package" >/dev/null 2>&1 && known="$known $package"
	done
	[ -n "$known" ] || return 0
	# shellcheck disable=SC2086
	LC_ALL=C apt-get install -q --assume-no --no-install-recommends --no-remove $known 2>/dev/null </dev/null |
		awk '/ newly installed,/ { count = $3 }
			/^Need to get/ { sub(/.*\//, "", $4); load = $4 " " $5 }
			/^After this operation/ { disk = $4 " " $5 }
			END { if (count) printf "%s packages, %s to download, %s of disk\n", count, load, disk }'
}

# install_packages LOG PACKAGE...: those that are missing.  Starts no service, and
# enables none; with a lock, as two of us may run.
install_packages() {
	local log=$1 missing result
	shift
	missing=$(missing_packages "$@")
	[ -n "$missing" ] || return 0
	command -v apt-get >/dev/null || {
		echo "missing: $missing(and this machine has no apt-get)"; return 1; }
	apt_update_once >>"$log" 2>&1 || { echo "apt-get update failed:"; tail -5 "$log"; return 1; }
	# shellcheck disable=SC2086
	if apt-get install -s --no-install-recommends $missing 2>>"$log" </dev/null | grep -q '^Remv '; then
		echo "installing $missing would remove other packages: left alone"
		return 1
	fi
	echo "installing $missing"
	# shellcheck disable=SC2086
	apt_without_services "$log" install $missing
	result=$?
	[ $result -eq 0 ] || [ $result -eq 2 ] || { echo "apt-get install failed:"; tail -15 "$log"; }
	return $result
}

# apt_without_services LOG WORD...: apt-get with these words, as root.  An interrupt, or the
# end of our parent, waits until all is as it should be.
apt_without_services() {
	(
		trap '' INT TERM HUP
		flock -w 1800 9 || { echo "another installation of Postern's tests is running"; exit 1; }
		without_services "$@"
	) 9</var/cache
}

ENABLED=/var/cache/postern-enabled	# what was so before, while packages are installed
POLICY=/usr/sbin/policy-rc.d		# asked before any script of a package starts a service

# Links that start something at boot.
enabled_services() {
	{
		find /etc/systemd/system /etc/systemd/user -type l ! -lname /dev/null
		find /etc/rc[2-5S].d -name 'S*'
	} 2>/dev/null | sort
}

# without_services LOG WORD...
without_services() {
	local log=$1 ours=no result had_systemd=no self=$BASHPID
	shift
	# What one that was killed left: its policy, its record of the time before.
	! grep -qs 'setup.sh of Postern' $POLICY || rm -f $POLICY
	if [ ! -e $POLICY ]; then
		cat >$POLICY <<-END
			#!/bin/sh
			# Made by contrib/setup.sh of Postern while its process $self installs packages: none
			# of them starts its service.  When that has ended this file forbids nothing.
			kill -0 $self 2>/dev/null && exit 101
			exit 0
		END
		chmod 755 $POLICY && ours=yes
	elif $POLICY postfix start >/dev/null 2>&1; [ $? -ne 101 ]; then
		echo "$POLICY of this machine lets packages start services."
		echo "Run this yourself: apt-get $*"
		return 2
	fi
	[ -e $ENABLED ] || { enabled_services >$ENABLED.new && mv $ENABLED.new $ENABLED; } || return 1
	! package_installed systemd || had_systemd=yes
	case " $* " in
	*' postfix '*) echo 'postfix postfix/main_mailer_type select No configuration' |
		debconf-set-selections >>"$log" 2>&1 || true ;;
	esac
	# Nobody is there to answer a question.
	DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 apt-get -y -q --no-install-recommends \
		--no-remove -o APT::Keep-Downloaded-Packages=false "$@" >>"$log" 2>&1 </dev/null
	result=$?
	enabled_services | comm -13 $ENABLED - | disable_again $had_systemd >>"$log" 2>&1
	rm -f $ENABLED
	[ $ours = no ] || rm -f $POLICY
	return $result
}

# disable_again HAD-SYSTEMD <LINKS: by Debian's own tools, which keep it in mind for the
# packages' next versions.  What systemd itself starts stays, where it has just come.
disable_again() {
	local link unit scope
	while read -r link; do
		[ -L "$link" ] || continue
		case $link in
		/etc/rc*) update-rc.d "$(basename "$link" | cut -c 4-)" disable; continue ;;
		/etc/systemd/user/*) scope=--user ;;
		*) scope=--system ;;
		esac
		unit=$(readlink "$link")
		[ "$1" = yes ] || [ "$(dpkg -S "${unit#/usr}" 2>/dev/null | cut -d : -f 1)" != systemd ] || continue
		deb-systemd-helper "$scope" disable "$(basename "$unit")"
		rm -f "$link"
		case $link in *.wants/*|*.requires/*) rmdir --ignore-fail-on-non-empty "${link%/*}" ;; esac
	done
	[ ! -d /run/systemd/system ] || systemctl daemon-reload
}

# download_aside DIRECTORY LOG PACKAGE: unpacks it there, with the libraries that
# it needs and this machine lacks.
download_aside() {
	local directory=$1 log=$2 queue=$3 seen=' ' package more
	mkdir -p "$directory.debs" "$directory" || return 1
	apt_update_once >>"$log" 2>&1 || return 1
	while [ -n "$queue" ]; do
		package=${queue%% *}
		case $queue in *' '*) queue=${queue#* } ;; *) queue='' ;; esac
		case $seen in *" $package "*) continue ;; esac
		seen="$seen$package "
		(cd "$directory.debs" && apt-get download -q "$package" >>"$log" 2>&1) || return 1
		for more in $(apt-cache depends --important "$package" |
				awk '$1 == "Depends:" && $2 ~ /^lib/ { print $2 }'); do
			package_installed "$more" || queue="${queue:+$queue }$more"
		done
	done
	for package in "$directory.debs"/*.deb; do
		dpkg -x "$package" "$directory" || return 1
	done
	rm -rf "$directory.debs"
}

# postfix_aside DIRECTORY LOG: a Postfix of our own beside the machine's MTA,
# with accounts of its own, for with_postfix_aside.
postfix_aside() {
	local directory=$1 log=$2 id=64000 table
	if [ ! -e "$directory/complete" ]; then
		rm -rf "$directory" "$directory.debs"
		download_aside "$directory" "$log" postfix || return 1
		cp "$directory"/usr/share/postfix/main.cf.dist "$directory/etc/postfix/main.cf.proto"
		cp "$directory"/usr/share/postfix/master.cf.dist "$directory/etc/postfix/master.cf.proto"
		: >"$directory/complete"
	fi
	if ! getent passwd postfix >/dev/null || ! getent group postdrop >/dev/null; then
		while getent passwd $id >/dev/null || getent group $id >/dev/null ||
				getent group $((id + 1)) >/dev/null; do
			id=$((id + 2))
		done
		for table in passwd group; do cp /etc/$table "$directory/etc/$table" || return 1; done
		getent passwd postfix >/dev/null ||
			echo "postfix:x:$id:$id::/var/spool/postfix:/usr/sbin/nologin" >>"$directory/etc/passwd"
		getent group postfix >/dev/null || echo "postfix:x:$id:" >>"$directory/etc/group"
		getent group postdrop >/dev/null ||
			echo "postdrop:x:$((id + 1)):" >>"$directory/etc/group"
		chgrp "$((id + 1))" "$directory"/usr/sbin/postdrop "$directory"/usr/sbin/postqueue &&
			chmod 2755 "$directory"/usr/sbin/postdrop "$directory"/usr/sbin/postqueue
	fi
}

# What a command needs to see that Postfix, and nobody else: shell lines for a
# mount namespace of its own.
postfix_aside_mounts() {
	# shellcheck disable=SC2016
	printf 'for at in usr etc var/spool; do mount -t overlay -o ro,lowerdir=%s/$at:/$at overlay /$at || exit 1; done' "$1"
}

# copy_sources FROM TO: what belongs to the project, not what was built in it.
copy_sources() {
	mkdir -p "$2" || return 1
	# A list from git would need git, and trust in the tree's owner.
	tar -C "$1" --exclude=./.git --exclude='*.o' --exclude='*.a' --exclude=./Makefile \
		--exclude=./config.status --exclude=./autom4te.cache --exclude=.deps \
		--exclude=.dirstamp --exclude='*.trs' --exclude=__pycache__ -cf - . | tar -C "$2" -xf -
}
