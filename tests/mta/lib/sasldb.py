# SPDX-License-Identifier: ISC
"""Logins of a private Sendmail, in a sasldb."""
import os
import shutil
import subprocess
from pathlib import Path

PLUGINS = next(Path("/usr/lib").glob("*-linux-gnu")) / "sasl2"
AUTH = """define(`confAUTH_MECHANISMS', `PLAIN')dnl
TRUST_AUTH_MECH(`PLAIN')dnl
define(`confDONT_BLAME_SENDMAIL', `GroupReadableSASLDBFile,GroupReadableKeyFile')dnl
"""


def make_logins(test, *logins):
    """Each has the password "secret".  Cyrus SASL looks for Sendmail.conf beside its plugins."""
    test.need("saslpasswd2")
    place = test.directory / "sasl2"
    shutil.copytree(PLUGINS, place, symlinks=True)
    (place / "Sendmail.conf").write_text(
        "pwcheck_method: auxprop\nauxprop_plugin: sasldb\nmech_list: PLAIN\n"
        f"sasldb_path: {test.directory}/sasldb2\n")
    subprocess.run(["mount", "--bind", place, PLUGINS], check=True)
    for login in logins:
        test.run(["saslpasswd2", "-c", "-p", "-f", test.directory / "sasldb2",
                  "-u", "mta.example.com", login], input="secret")
    os.chmod(test.directory / "sasldb2", 0o600)
