# SPDX-License-Identifier: ISC
# Functions of contrib/quickstart and tests/run-all (bash): Debian packages, a
# copy of Postfix aside, a copy of the sources.  Nothing here removes or
# reconfigures a package that the machine has.

BUILD_PACKAGES="gcc make autoconf automake libc6-dev libmilter-dev libevent-dev libconfig-dev libpcre2-dev libseccomp-dev libncurses-dev libhiredis-dev"

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

# install_packages LOG PACKAGE...: those that are missing; starts no service.
install_packages() {
	local log=$1 missing guard='' result
	shift
	missing=$(missing_packages "$@")
	[ -n "$missing" ] || return 0
	command -v apt-get >/dev/null || {
		echo "missing: $missing(and this machine has no apt-get)"; return 1; }
	apt_update_once >>"$log" 2>&1 || { echo "apt-get update failed:"; tail -5 "$log"; return 1; }
	# shellcheck disable=SC2086
	if apt-get install -s --no-install-recommends $missing 2>>"$log" | grep -q '^Remv '; then
		echo "installing $missing would remove other packages: left alone"
		return 1
	fi
	# Services that packages bring are not started: invoke-rc.d asks this.
	if [ ! -e /usr/sbin/policy-rc.d ]; then
		guard=/usr/sbin/policy-rc.d
		trap 'rm -f /usr/sbin/policy-rc.d; exit 1' INT TERM HUP
		printf '#!/bin/sh\nexit 101\n' >$guard && chmod 755 $guard
	elif /usr/sbin/policy-rc.d postfix start >/dev/null 2>&1; [ $? -ne 101 ]; then
		echo "/usr/sbin/policy-rc.d of this machine lets packages start services."
		echo "Install these by hand: $missing"
		return 1
	fi
	echo "installing $missing"
	# shellcheck disable=SC2086
	printf 'postfix postfix/main_mailer_type select No configuration\n' |
		debconf-set-selections >>"$log" 2>&1 || true
	# shellcheck disable=SC2086
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
		--no-remove $missing >>"$log" 2>&1
	result=$?
	if [ -n "$guard" ]; then
		rm -f $guard
		trap - INT TERM HUP
	fi
	[ $result -eq 0 ] || { echo "apt-get install failed:"; tail -15 "$log"; }
	return $result
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
