"""Seven questions about 300 nodes, each answered from the first frame with default settings in a few keystrokes."""

import re

from screen import Journey

SIZES = ((80, 24), (200, 50))


class Answers(Journey):
    # The last number of a row of the list before the time used of the limit.
    ONE_OUTLIER = r" 1 +\S+/\S+"

    def fleets(self):
        """Yields the screen of the fleet at each size, once all nodes have answered or are down."""
        for size in SIZES:
            screen = self.open("--demo=300", size=size)
            # The driver of one of them hangs, which counts after some time.
            screen.until(r"29[78](/300| of 300 nodes) fresh", "all nodes that answer")
            yield screen

    def test_free_devices_of_a_partition_take_two_keys(self):
        for screen in self.fleets():
            screen.press("g", "g")
            screen.until(r"grouped by partition", "groups by partition")
            screen.press("z")
            screen.until(r"FROZEN", "values that stay as they are")
            titles = screen.until(r"^ +GROUP .*NODES +BUSY +(IDLE-HELD|HELD) +FREE +MOST +DOWN", "columns of devices by state")
            screen.settle()
            column = titles[0].split().index("FREE") - titles[0].split().index("NODES")
            free = {}
            for line in screen.rows(r"^▸ "):
                name, *numbers = line[2:].split()
                free[name] = int(numbers[column])
            self.assertEqual(set(free), {"gpu", "interactive", "serve"})
            self.assertTrue(all(count > 0 for count in free.values()), free)
            shared = screen.until(r"(\d+) nodes in several partitions.* (\d+) free|(\d+) free, \d+ down", "shared nodes")
            in_two = next(int(number) for number in reversed(shared.groups()) if number)
            total = int(screen.until(r"^\d+(?: devices)? · .*\b(\d+) free\b", "the free devices of the fleet")[1])
            self.assertEqual(sum(free.values()) - in_two, total)

    def test_my_worst_job_takes_one_key_and_is_opened_by_the_next(self):
        for screen in self.fleets():
            screen.press("2")
            screen.until(r"^\d+ jobs with nodes · .*\d+ yours", "the list of jobs")
            screen.settle()
            first, second = screen.rows(r"^\d+ +\S+ +ada ")[:2]
            job = first.split()[0]
            self.assertRegex(first, r"✗1 |\b1 lost\b")
            self.assertRegex(second, r"✗1 |\b1 lost\b|" + self.ONE_OUTLIER)
            screen.press("Enter")
            screen.until(rf"^job {job}  .*  ada  ", "the job, opened")
            screen.until(r"^gpu\d+:\d lost", "what is wrong")

    def test_the_sickest_node_takes_one_key_and_its_reason_two(self):
        for screen in self.fleets():
            screen.press("!")
            node = screen.until(r"problem 1 of \d+: (gpu\d+) #7 lost", "the sickest node")[1]
            screen.press("i")
            screen.until(rf"^node {node}$", "its explanation")
            screen.until(r"✗ #7 lost", "what is wrong")
            screen.until(r"reboot the node", "what to do about it")
            screen.until(r"last seen +\d\d:\d\d:\d\d, \d+s ago", "since when")

    def test_how_many_since_when_where_and_what_to_do_takes_one_key(self):
        for screen in self.fleets():
            screen.press("7")
            screen.until(r"^\d+ problems · \d+ of 300 nodes with failures", "how many nodes are faulty")
            screen.until(r"^✗ device lost \+ +\d+ +<?\d\d:\d\d:\d\d +>?\d+m?\d*s gpu\[?004", "since when, and which nodes")
            screen.press("z")
            screen.until(r"FROZEN", "problems that stay in their rows")
            screen.settle()
            problems = screen.rows(r"^[✗!] .* [+-] +\d+ ")
            lost = next(at for at, row in enumerate(problems) if "device lost" in row)
            screen.press(*["Down"] * lost)
            screen.until(r"^→ the device fell off the bus; reboot the node", "what to do about it")
            screen.until(r"NodeName=\S*gpu\S+ State=DRAIN", "which nodes to drain")

    def test_who_wastes_most_takes_one_key(self):
        for screen in self.fleets():
            screen.press("5")
            screen.until(r"^device time wasted since \d\d:\d\d:\d\d: \w+ \d+[ms]", "the user who wastes most")
            screen.press("z")
            screen.until(r"FROZEN", "values that stay as they are")
            screen.settle()
            said = screen.until(r"^device time wasted since \d\d:\d\d:\d\d: (\w+) \S+ \(\d+ idle now\)", "the user who wastes most")
            titles = screen.until(r"^ +USER .*WASTED", "the columns")[0].split()
            wasted = {}
            for line in screen.rows(r"^\+ \w+ "):
                values = line[2:].split()
                minutes, seconds = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", values[titles.index("WASTED")]).groups()
                wasted[values[0]] = 60 * int(minutes or 0) + int(seconds or 0)
            self.assertGreater(wasted[said[1]], 0)
            self.assertEqual(wasted[said[1]], max(wasted.values()), wasted)

    def test_the_meaning_of_a_column_takes_two_keys(self):
        for screen in self.fleets():
            screen.press("?")
            screen.until(r"^Signs and colours in Fleet", "the help page")
            screen.settle()
            meanings = {
                "AGE": "age of the numbers",
                "USER": "users of its devices",
                "DEVICES": "one cell per device",
                "NOTE": "problems",
            }
            missing = self.unexplained(screen, meanings)
            if missing:
                screen.press("PageDown")
                screen.until(r"\bAGE +age", "the second page")
                missing = self.unexplained(screen, missing)
            self.assertFalse(missing)

    @staticmethod
    def unexplained(screen, meanings):
        """The columns that the page does not explain, with their meanings."""
        return {title: meaning for title, meaning in meanings.items() if not screen.rows(rf"\b{title} +{meaning}")}
