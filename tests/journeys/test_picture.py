"""docs/picture draws what the terminal shows, as text, and nothing that a program prints gets out of the picture."""

import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from screen import TOP, Journey, program

SCRIPT = os.path.join(TOP, "docs", "picture")
SVG = "{http://www.w3.org/2000/svg}"


def load():
    """Returns the script as a module, without leaving its compiled form in docs."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("picture", SCRIPT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("picture", loader))
    loader.exec_module(module)
    return module


picture = load()


def text_of(svg):
    """Returns the text of a picture, as lines, each character in the column where it is drawn."""
    lines = {}
    for element in xml.etree.ElementTree.fromstring(svg).iter(SVG + "text"):
        row = (int(element.get("y")) - picture.MARGIN) // picture.LINE
        column = (int(element.get("x")) - picture.MARGIN) // picture.CELL
        for character in element.text:
            lines.setdefault(row, {})[column] = character
            column += picture.width_of(character)
    drawn = []
    for row in range(max(lines, default=-1) + 1):
        cells, column, line = lines.get(row, {}), 0, ""
        while column <= max(cells, default=-1):
            line += cells.get(column, " ")
            column += picture.width_of(cells.get(column, " "))
        drawn.append(line)
    return "\n".join(drawn)


def lines_of(text):
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n")


class Picture(Journey):
    def test_the_text_of_a_picture_is_that_of_the_screen(self):
        for options in ([], ["--background", "light"], ["--ascii"], ["--theme", "mono"]):
            screen = self.open("--demo=3", "--seed", "1", *options, size=(120, 40))
            screen.until(r"3 of 3 nodes fresh|3/3 fresh|2 of 3 nodes fresh|\d+ devices? · ", "nodes")
            screen.type("z")
            screen.until(r"(?i)frozen", "the frozen screen")
            for keys in ("", "m", "3"):
                screen.type(keys)
                screen.settle()
                plain, coloured = screen.text(), screen.tmux("capture-pane", "-e", "-p", "-t", "s")
                if screen.text() != plain:
                    screen.settle()
                    plain, coloured = screen.text(), screen.tmux("capture-pane", "-e", "-p", "-t", "s")
                drawn = picture.svg(coloured, (120, 40), picture.DARK)
                self.assertEqual(lines_of(text_of(drawn)), lines_of(plain))
                self.assertLess(len(drawn), 150_000)

    def test_a_shot_is_taken_of_any_program(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "help.svg")
            command = [SCRIPT, "shot", "--wait", "1", "80x24", "", path, "sh", "-c", f"{program()} --version; sleep 9"]
            subprocess.run(command, check=True)
            with open(path, encoding="utf-8") as file:
                self.assertRegex(text_of(file.read()), r"^gtop \d")

    def test_only_what_is_underlined_is_underlined(self):
        drawn = picture.svg("\x1b[1;4m2 down\x1b[0m   every 1s", (30, 1), picture.DARK)
        widths = re.findall(r'textLength="(\d+)">(2 down|every 1s)<', drawn)
        self.assertEqual(widths, [("48", "2 down"), ("64", "every 1s")])

    def test_hostile_text_stays_text(self):
        hostile = (
            "<script>alert(1)</script> & ]]> <!--\n"
            "\x1b]0;title</svg>\x07\x1b]8;;javascript:x\x1b\\link\x1b[2J\x1b[5;5Hthere\x1b[31;\"red\n"
            "a\x00b\x08c\x7fd\x9be\ufffef\u202eg\n"
            "幅 wide e\u0301 \u200d x\n"
            "\x1b[38;5;999999999mfar\x1b[38;2;1mcut\x1b[48;2;999;0;0mred\x1b[;;;;m\x1b[1;31\n"
        )
        given = subprocess.run([SCRIPT, "svg", "80x24"], input=hostile.encode(), stdout=subprocess.PIPE, check=True)
        root = xml.etree.ElementTree.fromstring(given.stdout)
        self.assertEqual({one.tag.removeprefix(SVG) for one in root.iter()} - {"g"}, {"svg", "title", "style", "rect", "path", "text"})
        drawn = text_of(given.stdout.decode())
        self.assertIn("<script>alert(1)</script> & ]]> <!--", drawn)
        self.assertNotIn("title", drawn)
        self.assertNotIn("javascript", drawn)
        self.assertIn("linkthere", drawn)
        self.assertRegex(drawn, "a\ufffdb\ufffdc\ufffdd")
        self.assertIn("幅 wide e", drawn)
        self.assertIn("farcutred", drawn)
        # Bytes that are not UTF-8, and a screen longer and wider than the picture.
        raw = b"\xff\xfe\x1b[" + b"9" * 5000 + b"m" + b"x" * 5000 + b"\n" * 5000
        given = subprocess.run([SCRIPT, "svg", "40x12"], input=raw, stdout=subprocess.PIPE, check=True)
        self.assertLessEqual(max(map(len, text_of(given.stdout.decode()).split("\n"))), 40)

    def test_every_cell_stands_in_its_column(self):
        drawn = picture.svg("\x1b[32m▆▆\x1b[0m幅x━\x1b[7m y", (20, 2), picture.LIGHT)
        root = xml.etree.ElementTree.fromstring(drawn)
        places = {one.text: int(one.get("x")) - picture.MARGIN for one in root.iter(SVG + "text")}
        self.assertEqual(places["x"], 4 * picture.CELL)
        for element in root.iter(SVG + "text"):
            columns = sum(map(picture.width_of, element.text))
            self.assertEqual(int(element.get("textLength")), columns * picture.CELL)

    def test_frames_share_the_rows_that_stay(self):
        frames = [(1, "same\none"), (2, "same\ntwo"), (1, "same\none")]
        drawn = picture.animated_svg(frames, (20, 2), picture.DARK, "frames")
        xml.etree.ElementTree.fromstring(drawn)
        self.assertEqual([drawn.count(f">{word}<") for word in ("same", "one", "two")], [1, 1, 1])
        self.assertIn("75.00%", drawn)

    def test_a_cast_keeps_characters_that_chunks_cut(self):
        data = "▆幅x".encode()
        chunks = [(10.0 + at, data[at : at + 1].decode("latin-1")) for at in range(len(data))]
        lines = [line for line in picture.cast(chunks, (80, 24), 10.0).splitlines()]
        texts = [json.loads(line)[2] for line in lines[1:]]
        self.assertEqual("".join(texts), "▆幅x")


if __name__ == "__main__":
    unittest.main()
