"""The pages of a fetch taken apart; what cannot be read is pulled again before it is believed."""

from collections.abc import Iterator

from sls_io.decoding.decode import Decoder, Reading
from sls_io.values.errors import DecodeError
from sls_io.wire.fetch import Fetch
from sls_io.wire.page import Page


def readings(fetch: Fetch, decoder: Decoder) -> Iterator[tuple[Page, Reading]]:
    """Each page of `fetch` with what the decoder makes of it; iterate once.

    A page that its headers contradict is pulled again; when it stays so, the fetch stops there. A page in
    which something cannot be read is pulled again; when the same bytes come, it is given as it came.
    """
    for page in fetch:
        try:
            reading = decoder.open(page)
        except DecodeError as error:
            fetch.retry(page, error)
            continue
        if reading.unreadable and not page.confirmed:
            fetch.doubt(page)
            continue
        yield page, reading
