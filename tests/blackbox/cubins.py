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
