# SPDX-License-Identifier: ISC
# settings.def to the list of settings of postern.conf(5).  A row is one line:
# SETTING("path", TYPE, "default", "allowed", EFFECT, AT, "help")
function text(s) {
	gsub(/\\/, "\\e", s)
	gsub(/-/, "\\-", s)
	return s
}
# In lines of at most 78 characters, none of which looks like a request.
function fold(s,   words, n, i, line, out) {
	n = split(text(s), words, " ")
	for (i = 1; i <= n; i++) {
		if (line != "" && length(line) + length(words[i]) > 76) {
			out = out line "\n"
			line = ""
		}
		if (line == "" && words[i] ~ /^[.\047]/)
			line = "\\&"
		else if (line != "")
			line = line " "
		line = line words[i]
	}
	return out line
}
function kind(type) {
	if (type == "GROUP") return "group"
	if (type == "GROUPS") return "list of groups"
	if (type == "WINDOW") return "group as window"
	if (type == "REPLIES") return "list as replies"
	if (type == "FEEDBACK") return "feedback"
	if (type == "FLAG") return "true or false"
	if (type == "NUMBER") return "number"
	if (type == "SIZE") return "size"
	if (type == "DURATION") return "time"
	if (type == "RATE") return "rate"
	if (type == "WORD") return "word"
	if (type == "TEXT") return "text"
	if (type == "WORD_TEXT") return "text without spaces"
	if (type == "PATH") return "path"
	if (type == "PATH_OR_NONE") return "path or none"
	if (type == "LOG") return "path or journal:"
	if (type == "MODE") return "mode"
	if (type == "ADDRESS") return "address"
	if (type == "MASKS") return "masks"
	if (type == "PORTS") return "ports"
	if (type == "NUMBERS") return "numbers"
	if (type == "TEXTS") return "texts"
	if (type == "QUOTAS") return "limits"
	if (type == "WORDS") return "words"
	if (type == "LISTEN") return "addresses"
	print "settings_man.awk: unknown type " type > "/dev/stderr"
	exit 1
}
function effect(word) {
	if (word == "RESTART") return "restart"
	return "reload"
}
/^SETTING\(/ {
	gsub(/" POSTERN_RUNSTATEDIR "/, "@runstatedir@/postern")
	gsub(/POSTERN_RUNSTATEDIR "/, "\"@runstatedir@/postern")
	gsub(/" POSTERN_LOCALSTATEDIR "/, "@localstatedir@")
	gsub(/POSTERN_LOCALSTATEDIR "/, "\"@localstatedir@")
	# strings stand at even places between quotes
	n = split($0, part, "\"")
	path = part[2]
	type = part[3]
	gsub(/[, ]/, "", type)
	standard = part[4]
	allowed = part[6]
	when = part[7]
	sub(/^, */, "", when)
	sub(/,.*/, "", when)
	help = part[8]
	if (n != 9 || path == "" || help == "") {
		print "settings_man.awk: cannot read: " $0 > "/dev/stderr"
		exit 1
	}
	printf ".TP\n.B %s\n", text(path)
	facts = kind(type)
	if (allowed != "" && allowed ~ /\|/) {
		gsub(/\|/, ", ", allowed)
		facts = (type == "WORDS" ? "any of " : "") allowed
	} else if (allowed != "" && path != "version") {
		unit = type ~ /TEXT|PATH|LOG/ ? " characters" : ""
		sub(/\.\./, " to ", allowed)
		facts = facts ", " allowed unit
	}
	if (standard != "")
		facts = facts "; default " standard
	# a scenario is read once
	if (type != "GROUP" && FILENAME !~ /scenario/)
		facts = facts "; " effect(when)
	print fold("(" facts ")")
	print fold(toupper(substr(help, 1, 1)) substr(help, 2) ".")
	rows++
}
END {
	if (rows == 0)
		exit 1
}
