"""Structs and named tuples that are cheap to declare; `Cloned` state, memoised results, late imports.

To readers and type checkers they are `dataclasses.dataclass(slots=True, frozen=True)` and `typing.NamedTuple`, but the
constructor is generated when the first instance is made, not at import. The first frame imports a hundred classes of
each kind and instantiates half of them. `dataclasses`, which imports `inspect`, would delay it by 40 to 50 ms (a third
of its CPU time), `typing.NamedTuple` by 15 to 20 ms. Only the type checker enforces that a struct is frozen: a run-time
check makes each instance four times as expensive. Classes not needed for the first frame are plain dataclasses.
"""

from __future__ import annotations

from _collections import _tuplegetter  # type: ignore[import-not-found]
from collections import deque
from collections.abc import Callable, Hashable
from functools import cache
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast, dataclass_transform

T = TypeVar("T")
R = TypeVar("R", bound="Struct")


def late(module: str, name: str) -> Callable[..., Any]:
    """A function or class whose module is imported at the first call; most sessions never call it."""

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **named)

    return call


_MISSING = object()
_Namespace = dict[str, Any]


class _Field:
    __slots__ = ("default", "factory")

    def __init__(self, default: object, factory: Callable[[], object] | None = None) -> None:
        self.default = default
        self.factory = factory


def field(*, default_factory: Callable[[], object]) -> Any:
    """A field of a `Struct` whose default is made anew for each instance."""
    return _Field(_MISSING, default_factory)


def _annotated(namespace: _Namespace) -> tuple[str, ...]:
    declared = namespace.get("__annotations__", {})
    return tuple([name for name, said in declared.items() if not str(said).startswith(("ClassVar", "typing.ClassVar"))])


def _written(name: str, head: str, body: list[str], known: _Namespace) -> Callable[..., Any]:
    scope: _Namespace = {}
    lines = "".join(f"  {line}\n" for line in body)
    exec(f"def make({', '.join(known)}):\n def {name}({head}):\n{lines or '  pass'}\n return {name}", {}, scope)
    return cast("Callable[..., Any]", scope["make"](**known))


def _parameters(names: tuple[str, ...], defaults: _Namespace, owner: type) -> tuple[str, _Namespace]:
    """The parameters of a constructor in source form, and the default values they refer to by name."""
    parts: list[str] = []
    known: _Namespace = {}
    for name in names:
        if name in defaults:
            known[f"_{len(known)}_default"] = defaults[name]
            parts.append(f"{name}=_{len(known) - 1}_default")
        elif known:
            raise TypeError(f"{owner.__qualname__}.{name} has no default, but follows a field that has one")
        else:
            parts.append(name)
    return ", ".join(parts), known


def _first_init(self: Struct, *values: object, **named: object) -> None:
    made = type(self)
    made.__init__ = _struct_init(made)  # type: ignore[method-assign]
    made.__init__(self, *values, **named)


class _StructType(type):
    """Turns a class's annotations into slots."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: _Namespace, *, frozen: bool = True, eq: bool = True
    ) -> _StructType:
        own = _annotated(namespace)
        fields: dict[str, _Field | None] = {}
        for base in bases:
            fields.update(getattr(base, "_struct_fields", {}))
        for each in own:
            default = namespace.pop(each, _MISSING)
            fields[each] = default if isinstance(default, _Field) else _Field(default)
        namespace["__slots__"] = own
        namespace["_struct_fields"] = fields
        # Set in every class: an inherited constructor may already be generated, and knows fewer fields.
        namespace.setdefault("__init__", _first_init)
        if not eq:
            namespace["__eq__"] = object.__eq__
            namespace["__hash__"] = object.__hash__
        elif not frozen:
            namespace.setdefault("__hash__", None)
        return super().__new__(mcs, name, bases, namespace)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Struct(metaclass=_StructType):
    """A class of named, slotted fields: frozen and hashable unless declared with `frozen=False`.

        class Pace(Struct):
            shortest_s: float
            backoff: float = 2.0

    `eq=False` compares and hashes by identity. `__post_init__` runs after the fields are set. Subclasses add fields.
    """

    if TYPE_CHECKING:
        _struct_fields: ClassVar[dict[str, _Field]]

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return _compared(self) == _compared(other)

    def __hash__(self) -> int:
        return hash(_compared(self))

    def __repr__(self) -> str:
        shown = (f"{name}={getattr(self, name)!r}" for name in self._struct_fields)
        return f"{type(self).__qualname__}({', '.join(shown)})"


def _compared(struct: Struct) -> tuple[object, ...]:
    return tuple([getattr(struct, name) for name in struct._struct_fields])


def _struct_init(made: type[Struct]) -> Callable[..., None]:
    fields = made._struct_fields
    defaults, factories, body = {}, {}, []
    for name, about in fields.items():
        if about.factory is not None:
            factories[f"_{name}_factory"] = about.factory
            defaults[name] = _MISSING
            body.append(f"self.{name} = _{name}_factory() if {name} is _MISSING else {name}")
            continue
        if about.default is not _MISSING:
            defaults[name] = about.default
        body.append(f"self.{name} = {name}")
    if hasattr(made, "__post_init__"):
        body.append("self.__post_init__()")
    parameters, known = _parameters(tuple(fields), defaults, made)
    return _written("__init__", f"self, {parameters}", body, {**known, **factories, "_MISSING": _MISSING})


def replace(struct: R, **changes: object) -> R:
    values = {name: getattr(struct, name) for name in struct._struct_fields}
    return type(struct)(**{**values, **changes})


if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - re-exported
else:

    @cache
    def _tuple_code(count):
        """The code of a constructor for `count` values; renaming its parameters takes a tenth of compiling it."""
        names = "".join(f"_{place}, " for place in range(count))
        return eval(f"lambda _cls, {names}: _new(_cls, ({names}))").__code__

    class _NamedTupleType(type):
        """Turns a class's annotations into tuple fields."""

        def __new__(mcs, name, bases, namespace):
            fields = _annotated(namespace)
            namespace["__slots__"] = ()
            if fields and bases != (tuple,):
                defaults = {each: namespace.pop(each) for each in fields if each in namespace}
                if tuple(defaults) != fields[len(fields) - len(defaults) :]:
                    raise TypeError(f"{name}: a field without a default follows one with")
                namespace |= {each: _tuplegetter(place, None) for place, each in enumerate(fields)}
                namespace |= {"_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
            return super().__new__(mcs, name, bases, namespace)

    class NamedTuple(tuple, metaclass=_NamedTupleType):
        _fields: ClassVar = ()
        _field_defaults: ClassVar = {}

        def __new__(cls, *values, **named):
            """Make the first instance: generates the constructor that makes it and all later ones.

            Like `collections.namedtuple`, but without the class, which takes most of the time there.
            """
            code = _tuple_code(len(cls._fields)).replace(co_varnames=("_cls", *cls._fields))
            made = FunctionType(code, {"_new": tuple.__new__}, "__new__", tuple(cls._field_defaults.values()))
            made.__qualname__ = f"{cls.__qualname__}.__new__"
            cls.__new__ = made
            return cls.__new__(cls, *values, **named)

        @classmethod
        def _make(cls, values):
            return cls(*values)

        def _replace(self, /, **changes):
            made = tuple.__new__(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"{type(self).__name__} has no {', '.join(changes)}")
            return made

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            shown = (f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({', '.join(shown)})"


class Remembered:
    """Memoised results, each valid as long as its dependency stays equal."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[object, object]] = {}

    def of(self, what: Hashable, at: object, work: Callable[[], T]) -> T:
        """The result of `work`, recomputed if `at` differs from the last call."""
        known = self._known.get(what)
        if known is None or known[0] != at:
            self._known[what] = known = (at, work())
        return cast("T", known[1])


_SHARED: set[type] = {float, int, bool, str, tuple, type(None)}
"""Types whose instances are shared, not copied; types without contents or `clone` are added when first seen."""
_CONTAINERS = (list, deque, dict, set)


def copied(value: object) -> object:
    """A copy of a container (deep where its items can change) or of an object with `clone`; anything else unchanged."""
    if not isinstance(value, _CONTAINERS):
        clone = getattr(value, "clone", None)
        if clone is not None:
            return clone()
        _SHARED.add(type(value))
        return value
    if type(value) is list and value and is_copied(value[0]):
        return [copied(one) for one in value]
    if type(value) is dict and value and is_copied(next(iter(value.values()))):
        return {name: copied(one) for name, one in value.items()}
    return value.copy()


def is_copied(value: object) -> bool:
    return isinstance(value, _CONTAINERS) or (hasattr(value, "clone") and not isinstance(value, type))


class Cloned:
    """State with a `clone`: an independent copy in which containers and `Cloned` values are copied, the rest shared."""

    __slots__ = ()

    def clone(self) -> Self:
        return cast("Self", (_CLONERS.get(type(self)) or _cloner(type(self)))(self))


_CLONERS: dict[type, Callable[[Any], object]] = {}


def _cloner(cls: type) -> Callable[[Any], object]:
    """Generate the copy function of a class, slot by slot: each look at an open row copies hundreds of instances."""
    lines = ["def clone(self):", "  twin = new(cls)"]
    for name in (name for each in cls.__mro__ for name in each.__dict__.get("__slots__", ())):
        lines += ["  try:", f"    value = self.{name}", "  except AttributeError: pass", "  else:"]
        lines += [f"    twin.{name} = value if type(value) in shared else copied(value)"]
    if cls.__dictoffset__:
        # Set attributes one by one: writing to `twin.__dict__` would make all later attribute access slow.
        lines += ["  for name, value in self.__dict__.items():"]
        lines += ["    set(twin, name, value if type(value) in shared else copied(value))"]
    names = {"cls": cls, "new": object.__new__, "set": setattr, "shared": _SHARED, "copied": copied}
    exec("\n".join([*lines, "  return twin"]), names)
    made = _CLONERS[cls] = cast("Callable[[Any], object]", names["clone"])
    return made
