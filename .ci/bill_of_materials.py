#!/usr/bin/env python3
"""Writes the bill of materials and the licences that are released with the programs.

    bill_of_materials.py SYSROOT FOLDER TARGET…

cargo lists the crates that are linked into the program; crates that only builds or tests use are left out. Libraries
that are embedded as files are added. The files are FOLDER/sbom.cdx.json (CycloneDX 1.5) and FOLDER/THIRD-PARTY.txt; both
depend on the commit alone.
"""

import datetime
import json
import os
import re
import subprocess
import sys

LICENCE_FILE = re.compile(r"(UN)?LICEN[CS]E|COPYING|COPYRIGHT|NOTICE", re.IGNORECASE)
# Licences that need no review; a person must read any other one first.
ALLOWED = {
    "MIT", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Zlib", "0BSD", "Unlicense", "BSL-1.0",
    "Unicode-3.0", "Unicode-DFS-2016", "CC0-1.0", "Apache-2.0 WITH LLVM-exception",
}  # fmt: skip


def embedded():
    """Returns the libraries that are embedded in the program as files, in the form of cargo's packages."""
    with open("page/uplot.min.js", encoding="utf-8") as file:
        version = re.search(r"uPlot \(v([0-9.]+)\)", file.readline()).group(1)
    uplot = {"name": "uplot", "version": version, "license": "MIT", "repository": "https://github.com/leeoniya/uPlot"}
    return [{**uplot, "purl": "pkg:npm/uplot@" + version, "licence_files": ["page/uplot.LICENSE.txt"]}]


def cargo(*words):
    return subprocess.run(["cargo", *words], check=True, stdout=subprocess.PIPE).stdout.decode()


def linked_crates(targets):
    """Returns (name, version) of each crate that is linked into the program of any target."""
    found = set()
    for target in targets:
        tree = cargo("tree", "--locked", "--package", "gtop", "--edges", "normal,no-proc-macro", "--prefix", "none", "--target", target)
        for line in tree.splitlines():
            if line:
                name, version = line.split()[:2]
                found.add((name, version.lstrip("v")))
    return sorted(found)


def checksums():
    """Returns the checksums in Cargo.lock by (name, version)."""
    found = {}
    with open("Cargo.lock", encoding="utf-8") as file:
        for block in file.read().split("[[package]]"):
            entry = dict(re.findall(r'^(\w+) = "(.*)"$', block, re.MULTILINE))
            if "checksum" in entry:
                found[entry["name"], entry["version"]] = entry["checksum"]
    return found


def expression(package):
    # Old crates write MIT/Apache-2.0 for OR.
    return re.sub(r"\s*/\s*", " OR ", package["license"] or "")


def is_allowed(words):
    """Returns True if ALLOWED has one side of each OR and both sides of each AND."""
    words = words.replace("(", " ( ").replace(")", " ) ").replace("Apache-2.0 WITH LLVM-exception", "Apache-2.0")
    out = []
    for word in words.split():
        out.append(word.lower() if word in ("AND", "OR") else word if word in "()" else str(word in ALLOWED))
    return bool(out) and eval(" ".join(out), {"__builtins__": {}})  # only and, or, ( ), True and False are evaluated


def text_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().strip().replace("\r\n", "\n")


def licence_texts(package):
    if "licence_files" in package:
        return [text_of(path) for path in package["licence_files"]]
    folder = os.path.dirname(package["manifest_path"])
    names = sorted(name for name in os.listdir(folder) if LICENCE_FILE.match(name))
    files = [os.path.join(folder, name) for name in names]
    return [text_of(path) for path in files if os.path.isfile(path)]


def component(package, checksum):
    name, version = package["name"], package["version"]
    reference = package.get("purl") or "pkg:cargo/%s@%s" % (name, version)
    entry = {"type": "library", "bom-ref": reference, "name": name, "version": version, "purl": reference}
    entry["licenses"] = [{"expression": expression(package)}]
    if checksum:
        entry["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["repository"]:
        entry["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return entry


def sbom(root, packages, sums, resolved, created_at):
    known = {(p["name"], p["version"]) for p in [root, *packages]}

    def reference(key):
        return "pkg:cargo/%s@%s" % key

    edges = []
    for key in sorted(known):
        dependencies = sorted(reference(other) for other in resolved.get(key, ()) if other in known)
        edges.append({"ref": reference(key), "dependsOn": dependencies})
    application = component(root, None)
    application["type"] = "application"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": created_at,
            "component": application,
            "properties": [
                {"name": "gtop:commit", "value": os.environ.get("GTOP_COMMIT", "unknown")},
                {"name": "gtop:rustc", "value": subprocess.check_output(["rustc", "--version"]).decode().strip()},
            ],
        },
        "components": [component(p, sums.get((p["name"], p["version"]))) for p in packages + embedded()],
        "dependencies": edges,
    }


def licence_report(packages, sysroot, apache):
    """Returns each licence text once, below the names of its crates."""
    lines = [
        "gtop is licensed under MIT or Apache-2.0, as you like: LICENSE-MIT, LICENSE-APACHE.",
        "Linked into the program are the crates below, uPlot (for the charts of reports), the Rust standard library and,",
        "from the C compiler, libunwind and compiler-rt of LLVM (Apache-2.0 WITH LLVM-exception).",
        "",
    ]
    names_by_text = {}
    for package in packages + embedded():
        name = "%s %s" % (package["name"], package["version"])
        lines.append("%-34s %s" % (name, expression(package)))
        found = licence_texts(package)
        if not found:
            # The crate has no licence file. The Apache text names no copyright holder, so one copy fits all crates.
            if "Apache-2.0" not in expression(package):
                sys.exit("bill_of_materials: %s has no licence text for %s" % (name, expression(package)))
            found = [apache]
        for text in found:
            names_by_text.setdefault(text, []).append(name)
    rust = os.path.join(sysroot, "share/doc/rust/COPYRIGHT-library.html")
    if not os.path.isfile(rust):
        sys.exit("bill_of_materials: the Rust toolchain has no %s; install Rust with rustup" % rust)
    for text, names in sorted(names_by_text.items(), key=lambda pair: pair[1]):
        lines += ["", "=" * 100, ", ".join(names), "=" * 100, "", text]
    lines += ["", "=" * 100, "the Rust standard library", "=" * 100, "", text_of(rust)]
    return "\n".join(lines) + "\n"


def main():
    sysroot, folder, *targets = sys.argv[1:]
    metadata = json.loads(cargo("metadata", "--locked", "--format-version", "1"))
    by_key = {(p["name"], p["version"]): p for p in metadata["packages"]}
    by_id = {p["id"]: (p["name"], p["version"]) for p in metadata["packages"]}
    resolved = {
        by_id[node["id"]]: [by_id[d["pkg"]] for d in node["deps"] if any(k["kind"] is None for k in d["dep_kinds"])]
        for node in metadata["resolve"]["nodes"]
    }
    root_key = by_id[metadata["resolve"]["root"]]
    own = {by_id[member] for member in metadata["workspace_members"]}
    # What the crates of gtop use, the program uses.
    resolved[root_key] = sorted({used for key in own for used in resolved[key]} - own)
    root = by_key[root_key]
    packages = [by_key[key] for key in linked_crates(targets) if key not in own]
    refused = ["%s: %s" % (p["name"], p["license"]) for p in packages if not is_allowed(expression(p))]
    if refused:
        sys.exit("bill_of_materials: read these licences first: " + "; ".join(refused))
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    created_at = datetime.datetime.fromtimestamp(epoch, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    with open(os.path.join(folder, "sbom.cdx.json"), "w", encoding="utf-8") as file:
        json.dump(sbom(root, packages, checksums(), resolved, created_at), file, indent=1, sort_keys=True)
        file.write("\n")
    with open(os.path.join(folder, "THIRD-PARTY.txt"), "w", encoding="utf-8") as file:
        file.write(licence_report(packages, sysroot, text_of("LICENSE-APACHE")))
    print("bill_of_materials: %d crates" % len(packages))


if __name__ == "__main__":
    main()
