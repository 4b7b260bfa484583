# SPDX-License-Identifier: ISC
# The text that the layout of a segment is declared by: a file and all of ours that it includes,
# without comments, spaces and what stands in strings.  Where it differs, so does its checksum,
# and a state file is not taken for one's own (src/segment/geometry.c).
#
#	awk -v top=DIRECTORY -f layout.awk segment/geometry.c | cksum

function read_file(name,    path, line, found, open) {
	path = top "/src/" name
	if ((getline line < path) < 0) {
		path = top "/" name
		if ((getline line < path) < 0) {
			print "layout.awk: there is no " name > "/dev/stderr"
			exit failed = 1
		}
	}
	do {
		if (line ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
			split(line, found, "\"")
			if (found[2] !~ /\.inc$/ && !(found[2] in seen)) {
				seen[found[2]] = 1
				read_file(found[2])
			}
			continue
		}
		gsub(/"([^"\\]|\\.)*"/, "\"\"", line)
		if (open && !sub(/^.*\*\//, "", line))
			continue
		gsub(/\/\*[^*]*(\*+[^*\/]+)*\*+\//, "", line)
		open = sub(/\/\*.*$/, "", line)
		gsub(/[ \t]+/, "", line)
		if (line != "")
			print line
	} while ((getline line < path) > 0)
	close(path)
}

BEGIN {
	read_file(ARGV[1])
	exit failed
}
