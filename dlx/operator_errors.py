"""RabbitMQ's refusals of operators' commands: a text or an Erlang term, and the HTTP status.

``policy_validation`` holds the words for refused policies.

Source: rabbit_vhost.erl, rabbit_auth_backend_internal.erl, rabbit_runtime_parameters.erl, rabbit_policy.erl,
rabbit_definitions.erl; live servers.
"""

from __future__ import annotations

from typing import Any

from dlx.amqp_errors import NAMES, Refusal
from dlx.bindings import BindingRefusal
from dlx.erlang_printing import Atom, in_plain_text, json_term, printed
from dlx.releases import Release

OBJECT_NOT_FOUND = "Object Not Found"


class OperatorError(Exception):
    """An operator's command that RabbitMQ refuses.

    ``text`` is its reason, ``status`` the HTTP status; ``term`` the reason as an Erlang
    term (``dlx.erlang_printing``) where it is more than a text. ``plain`` says the same to a person: it is this
    package's sentence where ``text`` is an Erlang term. ``item`` is the section of a definitions document,
    and the place in it, of the item that was refused, where it was one.
    """

    def __init__(self, text: str, status: int = 400, term: Any = None, plain: str = "") -> None:
        super().__init__(text)
        self.text = text
        self.plain = plain or in_plain_text(text)
        self.status = status
        self.term = term
        self.item: tuple[str, int] | None = None


class UnforeseenError(OperatorError):
    """A value for which RabbitMQ has no code: an import of definitions says so, other requests are answered 500."""


def _only_term(term: Any, plain: str) -> OperatorError:
    return OperatorError(str(printed(term)), term=term, plain=plain)


def _unforeseen(term: Any, plain: str) -> UnforeseenError:
    return UnforeseenError(str(printed(term)), term=term, plain=plain)


# Virtual hosts and users


def no_vhost(name: str) -> OperatorError:
    return OperatorError(f"vhost '{name}' not found", 404)


def no_vhost_to_protect(name: str) -> OperatorError:
    return OperatorError(f"Cannot enable deletion protection of virtual host '{name}' because it does not exist", 404)


def protected_from_deletion(vhost: str) -> OperatorError:
    """Refuse to delete a virtual host that is protected from that."""
    return OperatorError(f"Refusing to delete virtual host '{vhost}' because it is protected from deletion", 412)


def no_user(name: str) -> OperatorError:
    return OperatorError(f"user '{name}' not found", 404)


def no_user_to_delete(name: str) -> OperatorError:
    return OperatorError(f"{OBJECT_NOT_FOUND}: user '{name}'", 404)


def tags_not_present() -> OperatorError:
    """Refuse a user without the field ``tags``."""
    return _only_term(Atom("tags_not_present"), "the field tags is missing")


def invalid_user_limit(problem: str) -> OperatorError:
    """Refuse a limit of a user; the text is bare."""
    return OperatorError(problem)


def user_with_invalid_limits(problem: str) -> UnforeseenError:
    """Refuse a user whose description has wrong limits, for which RabbitMQ has no answer."""
    return UnforeseenError(problem)


# Permissions


def invalid_permission_pattern(pattern: str | list[int], error: tuple[list[int], int]) -> OperatorError:
    """Refuse a permission's regular expression.

    ``pattern`` is text where RabbitMQ has it as a binary, and bytes where it has a list;
    ``error`` comes from ``policy_validation.pattern_error``.
    """
    shown = pattern.encode() if isinstance(pattern, str) else pattern
    words, at = error
    plain = f"{pattern if isinstance(pattern, str) else ''.join(map(chr, pattern))!r} is not a regular expression: "
    plain += f"{''.join(map(chr, words))} at character {at}"
    return _only_term((Atom("invalid_regexp"), shown, error), plain)


def no_exchange_for_topic_permissions(name: str) -> OperatorError:
    return _only_term((Atom("no_such_exchange"), name.encode()), f"exchange '{name}' is missing")


# Policies and parameters


def no_policy() -> OperatorError:
    """Refuse to clear a policy that does not exist."""
    return OperatorError(OBJECT_NOT_FOUND, 404)


def no_parameter() -> OperatorError:
    """Refuse to clear a runtime parameter that does not exist."""
    return OperatorError(OBJECT_NOT_FOUND, 404)


def invalid_parameter(problem: str, status: int = 400) -> OperatorError:
    """Refuse a policy or parameter whose validation found ``problem``."""
    plain = "; ".join(line.strip() for line in in_plain_text(problem).splitlines())
    return OperatorError(f"Validation failed\n\n{problem}\n", status, plain=plain)


def unknown_component(component: str) -> OperatorError:
    """Refuse a runtime parameter of a component that no plugin brings."""
    return invalid_parameter(f"component {component} not found")


def unknown_queue_type(kind: str) -> OperatorError:
    """Refuse an imported virtual host whose default queue type does not exist."""
    text = f"{kind} is not a valid queue type" if kind else "default_queue_type must not be an empty string"
    return OperatorError(text, term=text.encode())


def unnamed_policy(vhost: str) -> OperatorError:
    """Refuse an imported policy without a name."""
    text = f"policy in virtual host '{vhost}' has undefined name"
    return OperatorError(printed(list(map(ord, text))), term=text.encode(), plain=text)


def policy_as_parameter() -> OperatorError:
    """Refuse a policy that is set as a runtime parameter."""
    return OperatorError("policies may not be set using this method")


# Definitions documents


def no_vhost_to_import_into(name: str) -> OperatorError:
    text = f'Please create virtual host "{name}" prior to importing definitions.'
    return OperatorError(text, term=(Atom("no_such_vhost"), name.encode()))


def vhost_not_specified(status: int = 400) -> OperatorError:
    """Refuse an imported item that names no virtual host."""
    text = "Virtual host does not exist and is not specified in definitions file."
    return OperatorError(text, status, (Atom("no_such_vhost"), Atom("undefined")))


def too_many_queues(vhost: str, adding: int, limit: int, existing: int) -> OperatorError:
    """Refuse a document with more queues than the virtual host has room for."""
    text = (
        f'Adding {adding} queue(s) to virtual host "{vhost}" would exceed the limit of {limit} queue(s).\n\n'
        f"This virtual host currently has {existing} queue(s) defined.\n\nImport aborted!"
    )
    return OperatorError(text, term=(Atom("vhost_limit_exceeded"), list(map(ord, text))))


def no_user_to_grant(name: str) -> OperatorError:
    """Refuse limits, or imported permissions, of a user that does not exist."""
    return _only_term((Atom("no_such_user"), name.encode()), f"user '{name}' is missing")


def not_base64(password_hash: Any) -> OperatorError:
    return _only_term((Atom("not_base64"), json_term(password_hash)), "password_hash is not base64")


def password_and_hash() -> OperatorError:
    """Refuse a user with both a password and a hash."""
    return _only_term(
        Atom("both_password_and_password_hash_are_provided"), "it has both a password and a password_hash"
    )


def missing_key(name: str) -> UnforeseenError:
    return _unforeseen((Atom("badkey"), Atom(name)), f"the field {name} is missing")


def unforeseen_case(value: Any) -> UnforeseenError:
    """Refuse a value for which no branch of RabbitMQ's code is."""
    return _unforeseen((Atom("case_clause"), json_term(value)), f"no field takes the value {value!r}")


def bad_argument() -> UnforeseenError:
    """Refuse a value that one of Erlang's own functions does not take."""
    return _unforeseen(Atom("badarg"), "a field has the wrong type")


def wrong_type() -> UnforeseenError:
    """Refuse an imported value of a type that no clause of RabbitMQ's function takes."""
    return _unforeseen(Atom("function_clause"), "a field is missing, or has the wrong type")


def missing_fields(names: list[str]) -> UnforeseenError:
    """Refuse an imported item that lacks what each clause of RabbitMQ's function takes."""
    lacking = f"the field {names[0]} is" if len(names) == 1 else f"the fields {' and '.join(names)} are"
    return _unforeseen(Atom("function_clause"), f"{lacking} missing")


def unreadable_argument(problem: str) -> OperatorError:
    """Refuse an imported argument that is not an AMQP value."""
    return _only_term(Atom(problem), f"an argument cannot be read: {problem.replace('_', ' ')}")


def resources_missing(vhost: str, missing: list[tuple[str, str]]) -> OperatorError:
    """Refuse an imported binding whose ends do not exist: ``missing`` are their kinds and names."""
    terms = [
        (Atom("not_found"), (Atom("resource"), vhost.encode(), Atom(kind), name.encode())) for kind, name in missing
    ]
    plain = " and ".join(f"{kind} '{name}'" for kind, name in missing)
    return _only_term((Atom("resources_missing"), terms), f"{plain} is missing")


def invalid_binding(refusal: BindingRefusal) -> OperatorError:
    """Refuse an imported binding; a server prints the words and the terms for them apart."""
    term = (Atom("binding_invalid"), list(map(ord, refusal.words)), list(refusal.terms))
    return _only_term(term, refusal.plain)


def imported(refusal: Refusal) -> OperatorError:
    """Return the error of an import that runs into an AMQP refusal."""
    if refusal.is_crash:
        reason = Atom("badarg") if refusal.reason is None else refusal.reason
        return _unforeseen(reason, "its arguments make a server's import crash")
    name, explanation = NAMES[refusal.code].lower(), refusal.explanation
    term = (Atom("amqp_error"), Atom(name), list(map(ord, explanation)), Atom("none"))
    return OperatorError(f"{name}: {explanation}", term=term, plain=refusal.plain)


def imported_parameter(error: OperatorError, place: str, release: Release) -> OperatorError:
    """Return the refusal of an imported policy or parameter; ``place`` says which one, in parentheses."""
    text = error.text + place
    if release.definitions_refusal_texts == "plain":
        return OperatorError(text, plain=error.plain)
    from html import escape  # loads the names of all HTML entities; few servers refuse a policy on import

    term = escape(text, quote=False).encode()
    return OperatorError(printed(term), term=term, plain=error.plain)


def unusable_document(problem: str) -> OperatorError:
    """Refuse a document in which something has a wrong type; the words are this package's."""
    return OperatorError(problem)


def no_amqp_1_0(release: str) -> OperatorError:
    """Refuse an outcome of AMQP 1.0 on a release that does not speak it; the words are this package's."""
    return OperatorError(f"RabbitMQ {release} speaks no AMQP 1.0 without a plugin; 4.0 and later do")
