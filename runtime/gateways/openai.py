"""A gateway to any provider that speaks OpenAI's chat completions, with streaming.

Needs the extra `counterpoint[openai]` (httpx). A request goes to
`{base_url}/chat/completions` with `stream: true`, and the answer comes as server-sent
events that end with `[DONE]`.

    async with OpenAICompatible(base_url, model, api_key=os.environ["API_KEY"]) as gateway:
        ...  # one instance for all runs

A request that the provider could not take for the moment (429, 5xx, no connection) is sent
again as long as nothing of an answer had come, after the time that `Retry-After` names or a
growing pause. If that would be later than the run may work, it fails at once instead.

Keys go to `base_url` and nowhere else: no redirect is followed, no error, log or `repr`
shows them, and they are cut out of what the provider says.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final

import trio

from .chat_completions import (
    PASSING_STATUSES,
    Assembly,
    ProviderFault,
    error_in,
    request_body,
)
from .protocol import GatewayFailed, ModelInput, Reply, ReplyStream
from .retries import pause_s, retry_after_s
from .server_sent_events import EventParser, EventTooLong

try:
    import httpx
except ImportError as error:  # an extra
    raise ImportError("this gateway needs httpx: pip install 'counterpoint[openai]'") from error

EVENT_BYTES_MAX: Final = 4 << 20
REFUSAL_BYTES_MAX: Final = 64 << 10
SENTENCE_LENGTH_MAX: Final = 500
SECRET_LENGTH_MIN: Final = 6  # a shorter one would be cut out of the middle of words
LINGER_S: Final = 0.1
"""How long the end of an answer's body is waited for behind `[DONE]`: with it the connection
can serve the next request."""

_OURS: Final = frozenset({"model", "messages", "stream", "tools"})


class OpenAICompatible:
    """One model of one provider. Share an instance; close it with `async with` or `aclose`.

    `headers` go along with every request, `extra` into its body beside what is sent anyway;
    None there leaves something out, such as `stream_options` for a provider that does not
    know them. `connect_s` and `silence_s` bound how long the provider may take to be reached
    and how long it may be silent in between, `reply_bytes_max` what a reply may hold of text
    and arguments. A request is sent again up to `retries_max` times, each after at most
    `pause_s_max`: a provider that asks for more fails at once. `transport` replaces httpx's
    own, for a proxy, certificates or a test.

    Called in the trio loop. Cancellation closes the connection and passes.

    Raises:
      ValueError: an argument can't be used. The sentence never holds a key.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
        connect_s: float = 10.0,
        silence_s: float = 120.0,
        retries_max: int = 4,
        pause_s_max: float = 120.0,
        reply_bytes_max: int = 4 << 20,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._base_url = _checked_url(base_url)
        self._model = model
        self._extra = dict(extra or {})
        if _OURS & self._extra.keys():
            raise ValueError(f"extra must not hold any of {', '.join(sorted(_OURS))}")
        sent = dict(headers or {})
        if api_key is not None:
            sent["Authorization"] = f"Bearer {api_key}"
        _check_headers(sent)
        self._secrets = _secrets(sent)
        self._connect_s = connect_s
        self._silence_s = silence_s
        self._retries_max = retries_max
        self._pause_s_max = pause_s_max
        self._reply_bytes_max = reply_bytes_max
        self._client = httpx.AsyncClient(
            base_url=self._base_url,
            headers={
                "Accept": "text/event-stream",
                "Accept-Encoding": "identity",  # so that what is read is as large as what is sent
                **sent,
            },
            timeout=httpx.Timeout(silence_s, connect=connect_s, pool=None),
            follow_redirects=False,
            transport=transport,
        )
        # Nothing of one answer goes into the next request, of another scope perhaps.
        self._client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=()))

    def __repr__(self) -> str:
        return f"<OpenAICompatible {self._model!r} at {self._base_url}>"

    @property
    def name(self) -> str:
        """The model's name."""
        return self._model

    async def __aenter__(self) -> OpenAICompatible:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections. What is under way breaks off."""
        await self._client.aclose()

    async def complete(self, model_input: ModelInput, emit: ReplyStream) -> Reply:
        """Send one request; see `Gateway.complete`.

        Raises:
          GatewayFailed: the provider refused it, answered in a form that can't be used, was
            silent too long, or broke off.
        """
        body = request_body(self._model, model_input, self._extra)
        retry = 1
        while True:
            try:
                return await self._send(body, emit)
            except ProviderFault as fault:
                # A request that is cut did not fail: the effective deadline below is past then.
                await trio.lowlevel.checkpoint_if_cancelled()
                wait_s = pause_s(retry) if fault.after_s is None else fault.after_s
                why = self._why_not_again(fault, retry, wait_s)
                if why is not None:
                    raise GatewayFailed(self._told(fault.sentence, why)) from fault.__cause__
            await trio.sleep(wait_s)
            retry += 1

    def _why_not_again(self, fault: ProviderFault, retry: int, wait_s: float) -> str | None:
        """Return what to add to the fault's sentence, or None if it is worth a retry."""
        if not fault.passing:
            return ""
        if retry > self._retries_max:
            return f"It was tried {retry} times." if retry > 1 else ""
        if wait_s > self._pause_s_max:
            return f"It asks for a pause of {wait_s:.0f} s; the longest is {self._pause_s_max:g} s."
        if trio.current_time() + wait_s >= trio.current_effective_deadline():
            return f"The run has no time left for another try in {wait_s:g} s."
        return None

    async def _send(self, body: bytes, emit: ReplyStream) -> Reply:
        """Send the request once.

        Raises:
          ProviderFault: it failed; passing only if nothing of an answer had come.
        """
        assembly = Assembly(emit, self._reply_bytes_max)
        try:
            async with self._client.stream(
                "POST",
                "chat/completions",
                content=body,
                headers={"Content-Type": "application/json"},
            ) as response:
                await self._read(response, assembly)
        except httpx.HTTPError as error:
            raise ProviderFault(self._broken(error), passing=not assembly.begun) from error
        except ProviderFault as fault:
            fault.passing = fault.passing and not assembly.begun
            raise
        return assembly.reply()

    async def _read(self, response: httpx.Response, assembly: Assembly) -> None:
        async with _body(response) as chunks:
            if response.status_code != 200:
                raise _refusal(response, await _beginning(chunks))
            coding = response.headers.get("Content-Encoding", "identity").lower()
            if coding != "identity":
                raise ProviderFault(f"The provider compressed its answer ({coding}) unasked.")
            kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
            if kind != "text/event-stream":
                raise ProviderFault(
                    f"The provider answered with {kind or 'no content type'} instead of a stream "
                    f"of events: {error_in(await _beginning(chunks))}"
                )
            parser = EventParser(EVENT_BYTES_MAX)
            try:
                async for chunk in chunks:
                    if _take(parser.feed(chunk), assembly):
                        return
                if _take(parser.end(), assembly):
                    return
            except EventTooLong as error:
                raise ProviderFault(
                    f"The provider sent an event of more than {EVENT_BYTES_MAX} bytes."
                ) from error
            raise ProviderFault("The provider's answer ended before it was whole.", passing=True)

    def _broken(self, error: httpx.HTTPError) -> str:
        match error:
            case httpx.ConnectTimeout():
                return f"The provider could not be reached within {self._connect_s:g} s."
            case httpx.ConnectError():
                return f"The provider could not be reached: {error}."
            case httpx.TimeoutException():
                return f"The provider was silent for more than {self._silence_s:g} s."
            case _:
                return f"The connection to the provider broke: {error or type(error).__name__}."

    def _told(self, sentence: str, why: str) -> str:
        """Return both as one text, bounded, without keys and control characters."""
        for secret in self._secrets:
            sentence = sentence.replace(secret, "[key]")
        words = "".join(char if char.isprintable() else " " for char in sentence).split()
        told = " ".join(words)[: SENTENCE_LENGTH_MAX - len(why) - 2]
        return f"{told}{'' if told.endswith('.') else '.'} {why}".rstrip()


def _checked_url(base_url: str) -> str:
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        raise ValueError("base_url is no URL") from None
    if url.userinfo or url.query or url.fragment:
        raise ValueError("base_url must hold no user, query or fragment; pass a key as api_key")
    if url.scheme not in ("http", "https") or not url.host:
        raise ValueError("base_url must begin with http:// or https:// and name a host")
    return str(url).rstrip("/") + "/"


def _check_headers(headers: Mapping[str, str]) -> None:
    # h11 would refuse it too, and show it.
    for name, value in headers.items():
        if not (value.isascii() and value.isprintable() and value == value.strip()):
            raise ValueError(f"what goes into the header {name!r} is not plain printable ASCII")


def _secrets(headers: Mapping[str, str]) -> tuple[str, ...]:
    """Return what must not be shown, longest first."""
    secret = set(headers.values())
    for name, value in headers.items():
        if name.lower() in ("authorization", "proxy-authorization"):
            secret.add(value.partition(" ")[2])  # behind the scheme
    return tuple(
        sorted((text for text in secret if len(text) >= SECRET_LENGTH_MIN), key=len, reverse=True)
    )


@asynccontextmanager
async def _body(response: httpx.Response) -> AsyncGenerator[AsyncIterator[bytes], None]:
    """Give the response's body in chunks, and close it behind whoever leaves early.

    httpx's chunks pass through generators that don't close one another. Only an exception
    from the network takes them all down, so a cancellation is let in there.
    """
    chunks = response.aiter_bytes()
    wait_s = 0.0
    try:
        yield chunks
        wait_s = LINGER_S
    finally:
        with trio.move_on_after(wait_s):
            try:
                async for _ in chunks:
                    pass
            except httpx.HTTPError:
                pass  # whatever breaks now does so behind the end


async def _beginning(chunks: AsyncIterator[bytes]) -> bytes:
    """Return as much of a refusal's body as is worth reading."""
    found = bytearray()
    async for chunk in chunks:
        found += chunk
        if len(found) >= REFUSAL_BYTES_MAX:
            break
    return bytes(found[:REFUSAL_BYTES_MAX])


def _refusal(response: httpx.Response, body: bytes) -> ProviderFault:
    status = response.status_code
    if response.has_redirect_location:
        return ProviderFault(
            f"The provider answered {status} and names another place, where the key must not go: "
            f"{response.headers['Location']}"
        )
    asked = response.headers.get("Retry-After")
    return ProviderFault(
        f"The provider answered {status}: {error_in(body) or response.reason_phrase}",
        passing=status in PASSING_STATUSES,
        after_s=retry_after_s(asked, response.headers.get("Date"), time.time()),
    )


def _take(events: list[bytes], assembly: Assembly) -> bool:
    """Take the events up to `[DONE]`; whether that is among them."""
    for data in events:
        if data.strip() == b"[DONE]":
            return True
        assembly.take(data)
    return False
