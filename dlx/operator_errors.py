"""RabbitMQ's refusals of operators' commands: a text or an Erlang term, and the HTTP status.

``policy_validation`` holds the words for refused policies.

Source: rabbit_vhost.erl, rabbit_auth_backend_internal.erl, rabbit_runtime_parameters.erl, rabbit_policy.erl,
rabbit_definitions.erl; live servers.
"""

from __future__ import annotations

from html import escape
from typing import Any

from dlx.amqp_errors import NAMES, Refusal
from dlx.erlang_printing import Atom, printed
from dlx.releases import Release

OBJECT_NOT_FOUND = "Object Not Found"


class OperatorError(Exception):
    """An operator's command that RabbitMQ refuses.

    ``text`` is its reason, ``status`` the HTTP status; ``term`` the reason as an Erlang
    term (``dlx.erlang_printing``) where it is more than a text.
    """

    def __init__(self, text: str, status: int = 400, term: Any = None) -> None:
        super().__init__(text)
        self.text = text
        self.status = status
        self.term = term


def _only_term(term: Any) -> OperatorError:
    return OperatorError(str(printed(term)), term=term)


# Virtual hosts and users


def no_vhost(name: str) -> OperatorError:
    return OperatorError(f"vhost '{name}' not found", 404)


def no_user(name: str) -> OperatorError:
    return OperatorError(f"user '{name}' not found", 404)


def no_user_to_delete(name: str) -> OperatorError:
    return OperatorError(f"{OBJECT_NOT_FOUND}: user '{name}'", 404)


def tags_not_present() -> OperatorError:
    """Refuse a user without the field ``tags``."""
    return _only_term(Atom("tags_not_present"))


# Permissions


def invalid_permission_pattern(pattern: str | list[int], error: tuple[list[int], int]) -> OperatorError:
    """Refuse a permission's regular expression.

    ``pattern`` is text where RabbitMQ has it as bytes, and code points where it has a list;
    ``error`` comes from ``policy_validation.pattern_error``.
    """
    shown = pattern.encode() if isinstance(pattern, str) else pattern
    return _only_term((Atom("invalid_regexp"), shown, error))


def no_exchange_for_topic_permissions(name: str) -> OperatorError:
    return _only_term((Atom("no_such_exchange"), name.encode()))


# Policies and parameters


def no_policy() -> OperatorError:
    """Refuse to clear a policy that does not exist."""
    return OperatorError(OBJECT_NOT_FOUND, 404)


def invalid_parameter(problem: str, status: int = 400) -> OperatorError:
    """Refuse a policy or parameter whose validation found ``problem``."""
    return OperatorError(f"Validation failed\n\n{problem}\n", status)


def unknown_component(component: str) -> OperatorError:
    """Refuse a runtime parameter of a component that no plugin brings."""
    return invalid_parameter(f"component {component} not found")


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


def no_user_to_grant(name: str) -> OperatorError:
    """Refuse imported permissions of a user that does not exist."""
    return _only_term((Atom("no_such_user"), name.encode()))


def not_base64(password_hash: str) -> OperatorError:
    return _only_term((Atom("not_base64"), password_hash.encode()))


def missing_key(name: str) -> OperatorError:
    return _only_term((Atom("badkey"), Atom(name)))


def wrong_type() -> OperatorError:
    """Refuse an imported value of a type that no clause of RabbitMQ's function takes."""
    return _only_term(Atom("function_clause"))


def unreadable_argument(problem: str) -> OperatorError:
    """Refuse an imported argument that is not an AMQP value."""
    return _only_term(Atom(problem))


def resources_missing(vhost: str, missing: list[tuple[str, str]]) -> OperatorError:
    """Refuse an imported binding whose ends do not exist: ``missing`` are their kinds and names."""
    terms = [
        (Atom("not_found"), (Atom("resource"), vhost.encode(), Atom(kind), name.encode())) for kind, name in missing
    ]
    return _only_term((Atom("resources_missing"), terms))


def invalid_binding(words: str, terms: tuple[Any, ...]) -> OperatorError:
    """Refuse an imported binding with the words and terms of a ``bindings.BindingRefusal``."""
    return _only_term((Atom("binding_invalid"), list(map(ord, words)), list(terms)))


def imported(refusal: Refusal) -> OperatorError:
    """Return the error of an import that runs into an AMQP refusal."""
    if refusal.code == 541:
        return _only_term(Atom("badarg"))
    name, explanation = NAMES[refusal.code].lower(), refusal.explanation
    term = (Atom("amqp_error"), Atom(name), list(map(ord, explanation)), Atom("none"))
    return OperatorError(f"{name}: {explanation}", term=term)


def imported_parameter(error: OperatorError, place: str, release: Release) -> OperatorError:
    """Return the refusal of an imported policy or parameter; ``place`` says which one, in parentheses."""
    text = error.text + place
    if release.definitions_refusal_texts == "plain":
        return OperatorError(text)
    term = escape(text, quote=False).encode()
    return OperatorError(printed(term), term=term)


def unusable_document(problem: str) -> OperatorError:
    """Refuse a document in which something has a wrong type; the words are this package's."""
    return OperatorError(problem)
