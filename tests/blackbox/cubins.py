# SPDX-License-Identifier: Apache-2.0
"""What suites look up in a cubin: sections, and the parameters that each entry takes."""

import struct

KPARAM_INFO = 0x17
CBANK_PARAM_SIZE = 0x19


def sections(cubin):
    """{name: bytes} of an ELF file of 64 bits."""
    (offset,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", cubin, offset + i * size) for i in range(count)]
    texts = cubin[headers[names][4]:headers[names][4] + headers[names][5]]
    found = {}
    for header in headers:
        name = texts[header[0]:texts.index(b"\0", header[0])].decode()
        found[name] = b"" if header[1] == 8 else cubin[header[4]:header[4] + header[5]]
    return found


def parameters(cubin, entry):
    """([(ordinal, offset, size)], bytes of all) of an entry's parameters."""
    info = sections(cubin)[".nv.info." + entry]
    listed, total = [], None
    at = 0
    while at < len(info):
        form, attribute, value = struct.unpack_from("<BBH", info, at)
        payload = info[at + 4:at + 4 + value] if form == 4 else b""
        if attribute == KPARAM_INFO:
            _, ordinal, offset, flags = struct.unpack("<IHHI", payload)
            listed.append((ordinal, offset, flags >> 18))
        if attribute == CBANK_PARAM_SIZE:
            total = value
        at += 4 + len(payload)
    return sorted(listed), total


def made_up(entries, sm=90, abi=8, kind=2, machine=190, undefined=()):
    """An executable cubin that no compiler made: {symbol: {"parameters": sizes, "registers", "static_smem",
    "launch_bound", "code"}}. Enough of one to be judged; nothing could run it."""
    texts, sections, symbols, common = [b"\0"], [], [bytes(24)], b""

    def text(name):
        texts.append(name.encode() + b"\0")
        return sum(map(len, texts[:-1]))

    def add(name, data, type=1, link=0, size=None):
        sections.append((text(name), type, data, link, len(data) if size is None else size))
        return len(sections)

    for name, needs in entries.items():
        code = add(".text." + name, needs.get("code", b"\x00" * 16))
        symbols.append(struct.pack("<IBBHQQ", text(name), 0x12, 0x10, code, 0, 16))
        common += struct.pack("<BBHII", 4, 0x2F, 8, len(symbols) - 1, needs.get("registers", 32))
        info, offset = b"", 0
        for ordinal, size in enumerate(needs.get("parameters", ())):
            offset = -(-offset // min(size, 8)) * min(size, 8)
            info += struct.pack("<BBHIHHI", 4, KPARAM_INFO, 12, 0, ordinal, offset, size << 18)
            offset += size
        info += struct.pack("<BBH", 3, CBANK_PARAM_SIZE, offset)
        if needs.get("launch_bound"):
            info += struct.pack("<BBHIII", 4, 0x05, 12, needs["launch_bound"], 1, 1)
        add(".nv.info." + name, info, type=0x70000000)
        if needs.get("static_smem"):
            add(".nv.shared." + name, b"", type=8, size=1024 + needs["static_smem"])
    for name in undefined:
        symbols.append(struct.pack("<IBBHQQ", text(name), 0x10, 0, 0, 0, 0))
    add(".nv.info", common, type=0x70000000)
    add(".symtab", b"".join(symbols), type=2, link=len(sections) + 2)
    strings = add(".strtab", b"", type=3)
    sections[-1] = (*sections[-1][:2], b"".join(texts), 0, sum(map(len, texts)))
    body, headers = b"", bytes(64)
    for name, type, data, link, size in sections:
        headers += struct.pack("<IIQQQQIIQQ", name, type, 0, 0, 64 + len(body), size, link, 0, 1, 0)
        body += data
    head = b"\177ELF\2\1\1" + bytes([0x41, abi]) + bytes(7)
    head += struct.pack("<HHIQQQIHHHHHH", kind, machine, 1, 0, 0, 64 + len(body), sm << 8, 64, 0, 0, 64,
                        len(sections) + 1, strings)  # fmt: skip
    return head + body + headers
