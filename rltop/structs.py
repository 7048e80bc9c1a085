"""Structs and named tuples that are cheap to declare, state with a copy, what was worked out last, and late imports.

To whoever writes, reads and type-checks them, they are `dataclasses.dataclass(slots=True, frozen=True)` and
`typing.NamedTuple`; they differ in when the constructor is generated: at the first instance instead of at the import.
The first frame imports a hundred classes of each and makes instances of half of them: with `dataclasses`, which pulls
in `inspect` and the parser of Python, it would come 40 to 50 ms later (a third of its processor time), with
`typing.NamedTuple` 15 to 20. That a struct is frozen is the type checker's business: a check at run time costs four
times as much per instance. What is not imported before the first frame is a plain dataclass.
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
    """A function or class of a module that is imported when it is called: most sessions never do."""

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(import_module(module), name)(*arguments, **named)

    return call


_MISSING = object()
_Namespace = dict[str, Any]


class _Field:
    """What a class says of one of its fields beyond its default."""

    __slots__ = ("compare", "default", "factory", "repr")

    def __init__(self, default: object, factory: Callable[[], object] | None, repr: bool, compare: bool) -> None:
        self.default = default
        self.factory = factory
        self.repr = repr
        self.compare = compare


def field(
    *,
    default: object = _MISSING,
    default_factory: Callable[[], object] | None = None,
    repr: bool = True,
    compare: bool = True,
) -> Any:
    """A field of a `Struct` that needs more than a default.

    Args:
        default_factory: makes the value where none is given, one for each instance.
    """
    return _Field(default, default_factory, repr, compare)


def _annotated(namespace: _Namespace) -> tuple[str, ...]:
    declared = namespace.get("__annotations__", {})
    return tuple([name for name, said in declared.items() if not str(said).startswith(("ClassVar", "typing.ClassVar"))])


def _written(name: str, head: str, body: list[str], known: _Namespace) -> Callable[..., Any]:
    scope: _Namespace = {}
    lines = "".join(f"  {line}\n" for line in body)
    exec(f"def make({', '.join(known)}):\n def {name}({head}):\n{lines or '  pass'}\n return {name}", {}, scope)
    return cast("Callable[..., Any]", scope["make"](**known))


def _parameters(names: tuple[str, ...], defaults: _Namespace, owner: type) -> tuple[str, _Namespace]:
    """Parameters of a constructor in source form, and the defaults that they name."""
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
    """Turns the annotations of a class into slots."""

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: _Namespace, *, frozen: bool = True, eq: bool = True
    ) -> _StructType:
        own = _annotated(namespace)
        fields: dict[str, _Field | None] = {}
        for base in bases:
            fields.update(getattr(base, "_struct_fields", {}))
        for each in own:
            default = namespace.pop(each, _MISSING)
            fields[each] = default if isinstance(default, _Field) else _Field(default, None, repr=True, compare=True)
        namespace["__slots__"] = own
        namespace["_struct_fields"] = fields
        # In every class: the constructor that a base class may have by now knows fewer fields.
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
        shown = (f"{name}={getattr(self, name)!r}" for name, about in self._struct_fields.items() if about.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"


def _compared(struct: Struct) -> tuple[object, ...]:
    return tuple([getattr(struct, name) for name, about in struct._struct_fields.items() if about.compare])


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
        """The constructor of a tuple of so many values: to rename its parameters takes a tenth of compiling it."""
        names = "".join(f"_{place}, " for place in range(count))
        return eval(f"lambda _cls, {names}: _new(_cls, ({names}))").__code__

    class _NamedTupleType(type):
        """Turns the annotations of a class into the places of a tuple."""

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
        """A tuple whose places have names."""

        _fields: ClassVar = ()
        _field_defaults: ClassVar = {}

        def __new__(cls, *values, **named):
            """The first instance: has the constructor written that makes this one and all others.

            As `collections.namedtuple` writes it, without a class around it, which takes most of the time.
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
    """What was worked out, by name, each for as long as what it rests on stays the same."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[object, object]] = {}

    def of(self, what: Hashable, at: object, work: Callable[[], T]) -> T:
        """The answer of `work`, which is asked anew where `at` is another than the last time."""
        known = self._known.get(what)
        if known is None or known[0] != at:
            self._known[what] = known = (at, work())
        return cast("T", known[1])


_SHARED: set[type] = {float, int, bool, str, tuple, type(None)}
"""Types that are shared, most of what there is; those that have neither contents nor `clone` join them when met."""
_CONTAINERS = (list, deque, dict, set)


def copied(value: object) -> object:
    """A copy of its own of a container, with what it holds where that can change, or of what has `clone`."""
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
    """State of which `clone` makes an independent copy: containers and what has `clone` are copied, all else shared."""

    __slots__ = ()

    def clone(self) -> Self:
        return cast("Self", (_CLONERS.get(type(self)) or _cloner(type(self)))(self))


_CLONERS: dict[type, Callable[[Any], object]] = {}


def _cloner(cls: type) -> Callable[[Any], object]:
    """What copies instances of a class, written out slot by slot: a look at an open row copies hundreds of them."""
    lines = ["def clone(self):", "  twin = new(cls)"]
    for name in (name for each in cls.__mro__ for name in each.__dict__.get("__slots__", ())):
        lines += ["  try:", f"    value = self.{name}", "  except AttributeError: pass", "  else:"]
        lines += [f"    twin.{name} = value if type(value) in shared else copied(value)"]
    if cls.__dictoffset__:
        # Not by its dictionary: Python reads the attributes of what was asked for that by a slow way from then on.
        lines += ["  for name, value in self.__dict__.items():"]
        lines += ["    set(twin, name, value if type(value) in shared else copied(value))"]
    names = {"cls": cls, "new": object.__new__, "set": setattr, "shared": _SHARED, "copied": copied}
    exec("\n".join([*lines, "  return twin"]), names)
    made = _CLONERS[cls] = cast("Callable[[Any], object]", names["clone"])
    return made
