# SPDX-License-Identifier: ISC
"""A private Dovecot that checks the passwords of a Postfix."""
import shutil

from lib.testing import Skipped

# Options of an smtpd that lets in those who have logged in there.
SASL = ["smtpd_sasl_auth_enable=yes", "smtpd_sasl_type=dovecot", "smtpd_sasl_path=private/auth",
        "smtpd_sasl_security_options=noanonymous", "smtpd_client_connection_count_limit=0",
        "smtpd_relay_restrictions=permit_sasl_authenticated,reject"]
CONFIG = """base_dir = {root}/run
state_dir = {root}/state
log_path = {root}/log
protocols =
ssl = no
disable_plaintext_auth = no
auth_mechanisms = plain login
passdb {{
  driver = passwd-file
  args = scheme=plain {root}/users
}}
userdb {{
  driver = static
  args = uid=nobody gid=nogroup home=/nonexistent
}}
service auth {{
  unix_listener {socket} {{
    mode = 0666
  }}
}}
"""


def dovecot(test, postfix, logins):
    """Each of these has the password "secret"; before Postfix is asked for it."""
    if shutil.which("dovecot") is None:
        raise Skipped("Dovecot is not installed")
    root = test.directory / "dovecot"
    root.mkdir()
    (root / "users").write_text("".join(f"{login}:secret\n" for login in logins))
    (root / "conf").write_text(CONFIG.format(root=root, socket=postfix.private / "auth"))
    test.spawn([shutil.which("dovecot"), "-F", "-c", root / "conf"], "dovecot")
    test.wait_for((postfix.private / "auth").exists, "Dovecot listens")
