"""The generator: what it makes of an async class, and what it refuses."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from agentmemory.sync import generate
from agentmemory.sync.generate import TWINS, FormatterError, generated, main
from agentmemory.sync.sources import TranslationError
from agentmemory.sync.translate import _OWNER_NOTE, Twin
from agentmemory.sync.translate import translate as translate_source

SHELF = Twin("shelf", "AsyncShelf", "Shelf", owner=True)
BOOK = Twin("book", "AsyncBook", "Book")

BOOK_SOURCE = '''
class AsyncBook:
    """A book; made by an `AsyncShelf`."""

    def __init__(self, title: str) -> None:
        self._title = title

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.title!r})"

    @property
    def title(self) -> str:
        """Its title."""
        return self._title
'''


def test_the_generated_files_are_current() -> None:
    assert main(["--check"]) == 0


def test_generating_twice_gives_the_same_files() -> None:
    assert generated() == generated()


def test_a_stale_file_fails_the_check_and_is_written_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "agentmemory"
    (root / "sync").mkdir(parents=True)
    current = root / "sync" / "store.py"
    stale = root / "sync" / "thread.py"
    missing = root / "sync" / "client.py"
    current.write_text("# current\n", encoding="utf-8")
    stale.write_text("# edited by hand\n", encoding="utf-8")
    wanted = {current: "# current\n", stale: "# new\n", missing: "# newer\n"}
    monkeypatch.setattr(generate, "ROOT", root)
    monkeypatch.setattr(generate, "generated", lambda: wanted)

    assert main(["--check"]) == 1
    assert stale.read_text(encoding="utf-8") == "# edited by hand\n"
    said = capsys.readouterr().out
    assert "agentmemory/sync/thread.py is not current" in said
    assert "agentmemory/sync/client.py is not current" in said
    assert "store.py" not in said
    assert "run `python -m agentmemory.sync.generate`" in said

    assert main([]) == 0
    assert {path: path.read_text(encoding="utf-8") for path in wanted} == wanted
    assert main(["--check"]) == 0


def test_what_cannot_be_translated_is_told_and_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> dict[Path, str]:
        raise FormatterError("ruff is missing")

    monkeypatch.setattr(generate, "generated", refuse)
    assert main([]) == 2
    assert "ruff is missing" in capsys.readouterr().err


Translate = Callable[..., str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of a package that is formatted as ours is."""
    shutil.copy(Path(__file__).parents[2] / "pyproject.toml", tmp_path)
    root = tmp_path / "agentmemory"
    root.mkdir()
    return root


@pytest.fixture
def translate(root: Path) -> Translate:
    """Translate the body of a class `AsyncShelf` and return its twin as it would be written."""

    def write(name: str, text: str) -> None:
        (root / f"{name}.py").write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")

    def translated(
        body: str, *, head: str = "", header: str = "class AsyncShelf:", **others: str
    ) -> str:
        write("book", BOOK_SOURCE)
        for name, text in others.items():
            write(name, text)
        source = (
            "from __future__ import annotations\n\nfrom agentmemory.book import AsyncBook\n"
            f'{textwrap.dedent(head)}\n\n{header}\n    """A shelf."""\n\n'
            "    def __init__(self) -> None:\n        pass\n\n"
            f"{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n"
        )
        write("shelf", source)
        return generated(root, (SHELF, BOOK))[root / "sync" / "shelf.py"]

    return translated


def test_a_twin_is_written_as_expected(translate: Translate) -> None:
    text = translate(
        '''
        async def __aenter__(self) -> Self:
            """Open the shelf, as `async with AsyncShelf()` does."""
            return self

        async def __aexit__(self, *problem: object) -> None:
            """Close the shelf."""

        async def close(self) -> None:
            """Close the shelf; `await shelf.close()`."""

        @property
        def name(self) -> str:
            """What it is called."""
            return "shelf"

        async def put(
            self, title: str, /, page: int = FIRST, *more: int, at: os.PathLike[str], **rest: Any
        ) -> AsyncBook:
            """Put a book on an `AsyncShelf`.

            An async context manager gives it back.
            """

        async def find(self, title: str) -> AsyncBook | None:
            """Find a book."""

        async def all(self) -> list[AsyncBook]:
            """Return the books."""

        async def count(self, kind: Literal["async", "sync"] = "sync") -> Mapping[str, int]:
            """Count the books, with a \\\\ in it."""

        async def _hidden(self) -> None:
            pass
        ''',
        head="""
        import os
        from collections.abc import Mapping
        from typing import TYPE_CHECKING, Any, Literal, Self

        if TYPE_CHECKING:
            from numpy import ndarray

        FIRST = 1
        """,
    )
    assert text == textwrap.dedent('''\
        # Generated by `python -m agentmemory.sync.generate` from agentmemory/shelf.py; do not edit.
        """The blocking twin of `agentmemory.shelf`; generated, do not edit.

        May import shelf and below, `bridge` and its like in this package.
        """

        from __future__ import annotations

        import os
        from collections.abc import Mapping
        from typing import Any, Literal, Self

        from agentmemory.shelf import FIRST, AsyncShelf
        from agentmemory.sync.book import Book
        from agentmemory.sync.bridge import Bridge


        class Shelf:
            """A shelf.

            NOTE
            """

            def __init__(self) -> None:
                self._async = AsyncShelf()
                self._bridge = Bridge(self._async.close)

            def __enter__(self) -> Self:
                """Open the shelf, as `with Shelf()` does."""
                self._bridge.call(self._async.__aenter__)
                return self

            def __exit__(self, *problem: object) -> None:
                """Close the shelf."""
                self._bridge.close(self._async.__aexit__, *problem)

            def close(self) -> None:
                """Close the shelf; `shelf.close()`."""
                self._bridge.close(self._async.close)

            @property
            def name(self) -> str:
                """What it is called."""
                return self._async.name

            def put(
                self, title: str, /, page: int = FIRST, *more: int, at: os.PathLike[str], **rest: Any
            ) -> Book:
                """Put a book on a `Shelf`.

                A context manager gives it back.
                """
                return Book(
                    self._bridge, self._bridge.call(self._async.put, title, page, *more, at=at, **rest)
                )

            def find(self, title: str) -> Book | None:
                """Find a book."""
                found = self._bridge.call(self._async.find, title)
                return None if found is None else Book(self._bridge, found)

            def all(self) -> list[Book]:
                """Return the books."""
                return [Book(self._bridge, each) for each in self._bridge.call(self._async.all)]

            def count(self, kind: Literal["async", "sync"] = "sync") -> Mapping[str, int]:
                r"""Count the books, with a \\ in it."""
                return self._bridge.call(self._async.count, kind)
        ''').replace("    NOTE", textwrap.indent(_OWNER_NOTE, "    "))


def test_a_handle_shares_the_bridge_and_shows_itself_as_its_source_does(root: Path) -> None:
    edition = '''
    async def next(self) -> Self:
        """Return the next edition, or itself."""
    '''
    source = f"from typing import Self\n{BOOK_SOURCE}{edition}"
    (root / "book.py").write_text(source, encoding="utf-8")
    text = translate_source(root, BOOK, (SHELF, BOOK))
    for part in (
        '    """A book; made by a `Shelf`."""\n',
        "    def __init__(self, bridge: Bridge, target: AsyncBook) -> None:\n",
        '    def __repr__(self) -> str:\n        return f"{type(self).__name__}({self.title!r})"\n',
        "        found = self._bridge.call(self._async.next)\n",
        "        return self if found is self._async else type(self)(self._bridge, found)\n",
    ):
        assert part in text


def test_members_of_base_classes_are_translated_and_overridden_ones_once(
    translate: Translate,
) -> None:
    text = translate(
        '''
        async def put(self, title: str) -> None:
            """Put a book on top."""
        ''',
        head="from agentmemory.things import Things\n",
        header="class AsyncShelf(Things):",
        things='''
        from agentmemory.basics import Basics, Kind

        class Things(Basics):
            """Things."""

            async def put(self, title: str) -> None:
                """Put a thing."""

            async def take(self, kind: Kind) -> None:
                """Take a thing."""
        ''',
        basics='''
        Kind = str

        class Basics:
            """Basics."""

            async def close(self) -> None:
                """Close it."""
        ''',
    )
    assert text.count("def put(") == 1
    assert "Put a book on top." in text
    assert "def take(self, kind: Kind) -> None:" in text
    assert "self._bridge.close(self._async.close)" in text
    assert "from agentmemory.basics import Kind\n" in text


def test_names_that_only_type_checkers_load_stay_so(translate: Translate) -> None:
    text = translate(
        '''
        async def weigh(self) -> ndarray:
            """Weigh it."""
        ''',
        head="""
        from typing import TYPE_CHECKING

        if TYPE_CHECKING:
            from numpy import ndarray
        """,
    )
    assert "if TYPE_CHECKING:\n    from numpy import ndarray\n" in text


REFUSED = {
    "a public method that is not async": (
        'def put(self) -> None:\n    """Put."""',
        "`put` is public and not a coroutine method",
    ),
    "an async generator": (
        'async def books(self) -> int:\n    """Give."""\n    yield 1',
        "`books` is an async generator",
    ),
    "an async iterator": (
        'async def books(self) -> AsyncIterator[int]:\n    """Give."""',
        "`books` returns `AsyncIterator[int]`",
    ),
    "a decorator": (
        '@traced\nasync def put(self) -> None:\n    """Put."""',
        "`put` has a decorator whose blocking form is not known",
    ),
    "a class method": (
        '@classmethod\nasync def put(cls) -> None:\n    """Put."""',
        "`put` has a decorator whose blocking form is not known",
    ),
    "a property that can be set": (
        '@name.setter\ndef name(self, value: str) -> None:\n    """Set."""',
        "`name` has a decorator whose blocking form is not known",
    ),
    "an async iterator protocol": (
        'async def __anext__(self) -> int:\n    """Give."""',
        "`__anext__` has no blocking form",
    ),
    "another special method": (
        'def __len__(self) -> int:\n    """Count."""',
        "`__len__` is public and not a coroutine method",
    ),
    "a public attribute": ("limit: int = 5", "only methods and properties have a blocking twin"),
    "an unknown name": (
        'async def put(self, thing: Thing) -> None:\n    """Put."""',
        "it cannot be seen where `Thing` comes from",
    ),
    "an async callback": (
        'async def put(self, done: Callable[[], Awaitable[None]]) -> None:\n    """Put."""',
        "`put` takes `done` of a type that holds `Awaitable`",
    ),
    "a handle as an argument": (
        'async def put(self, book: AsyncBook | None = None) -> None:\n    """Put."""',
        "`put` takes `book` of a type that holds `AsyncBook`",
    ),
    "handles in a container": (
        'async def books(self) -> dict[str, AsyncBook]:\n    """Give."""',
        "`books` returns `dict[str, AsyncBook]`",
    ),
    "another owner": (
        'async def other(self) -> AsyncShelf:\n    """Give."""',
        "`AsyncShelf` has a bridge of its own",
    ),
    "a copy of the owner": (
        'async def copy(self) -> Self:\n    """Copy."""',
        "`copy` returns `Self`",
    ),
    "no return annotation": (
        'async def put(self):\n    """Put."""',
        "`put` has no return annotation",
    ),
    "no annotation of an argument": (
        'async def put(self, title) -> None:\n    """Put."""',
        "`title` has no annotation",
    ),
    "no docstring": ("async def put(self) -> None:\n    pass", "`put` has no docstring"),
    "a docstring about async": (
        'async def put(self) -> None:\n    """Put, in an async manner."""',
        "the docstring of `put` says 'async'",
    ),
    "a closing that returns something": (
        'async def close(self) -> bool:\n    """Close."""',
        "`close` has to return None",
    ),
    "a repr of private state": (
        "def __repr__(self) -> str:\n    return repr(self._books)",
        "`__repr__` uses `_books`, which is no public property",
    ),
    "a method without self": (
        'async def put() -> None:\n    """Put."""',
        "`put` does not start with `self`",
    ),
}
HEAD = """
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Self
"""


@pytest.mark.parametrize(("body", "problem"), REFUSED.values(), ids=list(REFUSED))
def test_what_has_no_translation_is_an_error_that_says_where(
    translate: Translate, body: str, problem: str
) -> None:
    with pytest.raises(TranslationError) as caught:
        translate(body, head=HEAD)
    place, _, message = str(caught.value).partition(": ")
    assert message.startswith(problem)
    assert place.startswith("agentmemory/shelf.py:")
    assert int(place.rpartition(":")[2]) > 1


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ("class AsyncShelf(Generic[int]):", "base class `Generic[int]`"),
        ("class AsyncShelf(Protocol):", "base class `Protocol`"),
        ("class AsyncShelf(Missing):", "base class `Missing`"),
    ],
)
def test_a_base_class_from_elsewhere_is_an_error(
    translate: Translate, header: str, problem: str
) -> None:
    with pytest.raises(TranslationError, match="none of the package's own") as caught:
        translate("", head="from typing import Generic, Protocol", header=header)
    assert problem in str(caught.value)


def test_a_name_with_two_meanings_is_an_error(translate: Translate) -> None:
    with pytest.raises(TranslationError, match="`Kind` means two things"):
        translate(
            'async def put(self, kind: Kind) -> None:\n    """Put."""',
            head="from agentmemory.things import Things\nfrom agentmemory.kinds import Kind",
            header="class AsyncShelf(Things):",
            things='''
            from agentmemory.others import Kind

            class Things:
                """Things."""

                async def take(self, kind: Kind) -> None:
                    """Take."""
            ''',
        )


def test_a_class_that_is_not_there_is_an_error(root: Path) -> None:
    (root / "shelf.py").write_text("", encoding="utf-8")
    with pytest.raises(LookupError, match="has no class `AsyncShelf`"):
        generated(root, (SHELF,))


def test_each_twin_has_a_file_of_its_own() -> None:
    assert len({twin.module for twin in TWINS}) == len(TWINS)
