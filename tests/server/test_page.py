# SPDX-License-Identifier: Apache-2.0
"""The audit page in a real browser: what it shows of a store measured on two GPUs, by mouse and by keyboard, on a
laptop and a phone, in the light and in the dark. CUBINARY_SCREENSHOTS names a folder for pictures of it."""

import os
import pathlib

import harness
import serving
import webdriver

harness.need_tools("chromium", "chromedriver")

HEADS = "return [...document.querySelectorAll('thead th')].map(th => th.textContent)"
ROWS = "return [...document.querySelectorAll('tbody tr')].map(tr => [...tr.cells].map(td => td.textContent))"
DRAWN = """return [...document.querySelectorAll('canvas')].map(canvas => {
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  const seen = new Set();
  for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return seen.size; })"""


class Page(serving.Case):
    def setUp(self):
        harness.Case.setUp(self)
        self.store = self.tmp / "measured.cubinary"
        self.run_program(harness.test_program("make_store"), self.store, "--measured")
        self.cubinary("keygen", self.tmp / "key")
        self.cubinary("release", "create", "v1", "--store", self.store)
        self.cubinary("release", "sign", "v1", "--key", self.tmp / "key", "--store", self.store)
        self.serve()

    def browser(self, view="", **options):
        window = webdriver.Browser(**options)
        self.addCleanup(window.__exit__)
        window.open(f"http://127.0.0.1:{self.port}/{view}")
        window.wait("return document.querySelector('h2, [role=alert]') !== null")
        return window

    def picture(self, window, name):
        if folder := os.environ.get("CUBINARY_SCREENSHOTS"):
            window.screenshot(pathlib.Path(folder) / f"{name}.png")

    def test_winners_are_filtered_and_sorted(self):
        window = self.browser()
        self.assertEqual(window.run("return document.querySelector('nav [aria-current]').textContent"), "Winners")
        heads, rows = window.run(HEADS), window.run(ROWS)
        self.assertEqual(heads[:5], ["Kernel", "Types", "Shape", "GPU", "Time, µs"])
        self.assertEqual(len(rows), 2)
        times = [row[4] for row in rows]
        self.assertIn("20", times)

        # By keyboard alone: focus the column's button, press Enter, and again.
        window.run("document.querySelectorAll('th button')[4].focus()")
        window.keys("\ue007")
        self.assertEqual(window.run("return document.querySelectorAll('th')[4].getAttribute('aria-sort')"), "ascending")
        self.assertEqual([row[4] for row in window.run(ROWS)], sorted(times, key=float))
        window.keys("\ue007")
        self.assertEqual([row[4] for row in window.run(ROWS)], sorted(times, key=float, reverse=True))

        window.run("document.querySelector('input[type=search]').focus()")
        window.keys("sm120-s84")
        self.assertEqual([row[3] for row in window.run(ROWS)], ["sm120-s84-l64M-b256-m16G"])
        self.assertEqual(window.run("return document.querySelector('[role=status]').textContent"), "1 of 2 winners")
        self.assertEqual(window.problems(), [])
        self.picture(window, "winners")

    def test_a_kernel_has_two_plots_and_their_numbers(self):
        window = self.browser("#/kernel/scale")
        window.wait("return document.querySelectorAll('canvas').length === 2")
        for colours in window.run(DRAWN):
            self.assertGreater(colours, 4)  # bars, text, lines: not an empty sheet
        self.assertEqual(window.run("return [...document.querySelectorAll('canvas')].map(c => c.getAttribute('role'))"),
                         ["img", "img"])
        rows = window.run(ROWS)
        self.assertEqual({row[1] for row in rows}, {"sm120-s84-l64M-b256-m16G", "sm120-s188-l128M-b512-m96G"})
        self.assertEqual({row[5] for row in rows}, {"ok"})
        self.assertEqual(window.problems(), [])
        self.picture(window, "kernel")

    def test_a_release_tells_where_its_artifacts_come_from(self):
        window = self.browser("#/releases")
        window.run("document.querySelector('tbody a').click()")
        window.wait("return document.querySelector('h2').textContent === 'Release v1'")
        text = window.run("return document.body.innerText")
        self.assertRegex(text, r"Signing keys\s+[0-9a-f]{64}")
        window.run("document.querySelector('summary').focus()")
        window.keys(" ")
        self.assertRegex(window.run("return document.querySelector('details[open]').innerText"),
                         r"artifact\s+sha256:[0-9a-f]{64}[\s\S]*build_key\s+[0-9a-f]{64}")
        self.assertEqual(window.problems(), [])

    def test_coverage_and_comparison(self):
        window = self.browser("#/coverage")
        self.assertIn("jobs (kernel, types, shape, GPU)", window.run("return document.body.innerText"))
        window.open(f"http://127.0.0.1:{self.port}/#/compare")
        window.wait("return document.querySelector('h2').textContent === 'Compare GPUs'")
        self.assertEqual([row[0] for row in window.run(ROWS)], ["scale"])
        self.assertEqual(window.problems(), [])

    def test_a_phone_and_the_dark(self):
        window = self.browser("#/kernel/scale", width=390, height=844, dark=True)
        window.wait("return document.querySelectorAll('canvas').length === 2")
        self.assertLessEqual(window.run("return document.documentElement.scrollWidth - window.innerWidth"), 0)
        channels = window.run("return getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).map(Number)")
        self.assertLess(max(channels), 64)
        self.picture(window, "phone-dark")

    def test_what_is_not_there(self):
        window = self.browser("#/kernel/nothing")
        self.assertIn("nothing", window.run("return document.querySelector('[role=alert]').textContent"))

    def test_it_loads_nothing_from_elsewhere(self):
        page = self.ask("/")
        self.assertEqual((page.status, page.headers["content-type"]), (200, "text/html; charset=utf-8"))
        policy = page.headers["content-security-policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertEqual(self.ask("/page/page.js", If_None_Match=self.ask("/page/page.js").headers["etag"]).status, 304)
        self.assertEqual(self.ask("/page/../page.hpp").status, 404)
        self.assertEqual(self.ask("/page/secret").status, 404)
        window = self.browser()
        names = window.run("return performance.getEntriesByType('resource').map(e => e.name)")
        self.assertGreater(len(names), 4)
        self.assertEqual([name for name in names if not name.startswith(f"http://127.0.0.1:{self.port}/")], [])


if __name__ == "__main__":
    harness.main()
