# SPDX-License-Identifier: ISC
"""The journal of a Postern under test, as posternctl and the log show it."""


class Journal:
    def __init__(self, test, postern):
        self.test, self.postern = test, postern

    def rows(self):
        return {row["directory"]: row for row in self.postern.status()["journal"]}

    def states(self):
        return {name: (row["state"], row["error"]) for name, row in self.rows().items()}

    def settled(self):
        """Nothing that was learned is to be written yet."""
        before, looks = self.rows()["feed"]["records"], 0

        def moved():
            nonlocal looks
            looks += 1                  # by number: the machine may stand still, the feed with it
            return looks >= 60 or self.rows()["feed"]["records"] != before
        self.test.poll(moved, 15)
        return looks >= 60

    def told(self, event):
        """room -> how often."""
        return {room: sum(f"event={event} " in line and f" room={room} " in line
                          for line in self.postern.log_text().splitlines())
                for room in ("feed", "keeper")}

    def destinations(self):
        return {row["name"]: row for row in self.postern.ask("destinations")}

    def lose_state(self):
        """With all that lies beside it: what a reboot leaves of a tmpfs."""
        for file in self.postern.shared.glob("state*"):
            file.unlink()

    def same(self, before, after, what):
        """All that was known is known."""
        for name, row in before.items():
            found = after.get(name, {})
            for key in ("state", "ceiling", "reason", "law"):
                self.test.equal(found.get(key), row[key], f"{what}: {key} of {name}")
            if row["until"] is not None:
                self.test.check(found.get("until") is not None and
                                row["until"] - 60 <= found["until"] <= row["until"],
                                f"{what}: until when: {found.get('until')} of {row['until']} s")
