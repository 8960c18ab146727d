"""The OpenAPI description of the interface ``/v1``."""

from __future__ import annotations

from typing import Any

from residuum import __version__
from residuum.server.model import ServedModel

PICTURES = ("image/jpeg", "image/png", "image/gif", "image/bmp", "image/tiff", "image/webp")

_ERROR = {
    "description": "The request cannot be answered; one sentence says why.",
    "content": {
        "application/json": {
            "schema": {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
        }
    },
}


def description(model: ServedModel) -> dict[str, Any]:
    """OpenAPI 3.1, with the bodies that this model takes."""
    probabilities = _option("all_probabilities", "The probability of every class.", {"type": "boolean"})
    atoms = _option("atoms", "Training samples to list.", {"type": "integer", "minimum": 1, "default": 10})
    return {
        "openapi": "3.1.0",
        "info": {"title": f"residuum serve {model.name}", "version": __version__},
        "paths": {
            "/v1/predict": {
                "post": _operation("Answer every query.", _answers(model), _body(model), [probabilities])
            },
            "/v1/explain": {
                "post": _operation("Say why one query gets its label.", _anything(), _body(model), [atoms])
            },
            "/v1/model": {"get": _operation("Describe the model.", _anything())},
            "/healthz": {"get": _operation("Say that requests are answered.", _anything())},
            "/metrics": {"get": _operation("Numbers for Prometheus.", {"text/plain": {}})},
            "/openapi.json": {"get": _operation("This description.", _anything())},
        },
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "security": [{}, {"token": []}],
    }


def _option(name: str, told: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": told, "schema": schema}


def _operation(
    told: str,
    content: dict[str, Any],
    body: dict[str, Any] | None = None,
    options: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "summary": told,
        "responses": {"200": {"description": "Done.", "content": content}, "4XX": _ERROR},
    }
    if body is not None:
        found["requestBody"] = {"required": True, "content": body}
    return {**found, "parameters": options} if options else found


def _anything() -> dict[str, Any]:
    return {"application/json": {"schema": {"type": "object"}}}


def _body(model: ServedModel) -> dict[str, Any]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    if model.takes_pictures:
        return dict.fromkeys((*PICTURES, "application/x-npy"), binary)
    row: dict[str, Any] = {"type": "array", "items": {"type": ["number", "string", "null"]}}
    if not model.fills_gaps:
        row["items"] = {"type": "number"}
    if model.expected is not None:
        row |= {"minItems": model.expected.n_features, "maxItems": model.expected.n_features}
    forms = [row]
    if model.expected is not None and model.expected.columns is not None:
        forms.append({"type": "object", "required": list(model.expected.columns)})
    queries = {"type": "array", "minItems": 1, "items": forms[0] if len(forms) == 1 else {"oneOf": forms}}
    names = {"type": "array", "items": {"type": "string"}}
    schema = {"type": "object", "required": ["queries"], "properties": {"queries": queries, "names": names}}
    return {"application/json": {"schema": schema}, "text/csv": {}, "application/x-npy": binary}


def _answers(model: ServedModel) -> dict[str, Any]:
    record = {
        "type": "object",
        "required": ["name", "label", "margin", "runner_up", model.score],
        "properties": {
            "name": {"type": "string"},
            "margin": {},
            model.score: {},
            "label": {},
            "runner_up": {},
        },
    }
    schema = {
        "type": "object",
        "properties": {
            "model": {"type": "string"},
            "features_used": {"type": "array", "items": {"type": "string"}},
            "not_converged": {"type": "integer"},
            "notes": {"type": "array", "items": {"type": "string"}},
            "answers": {"type": "array", "items": record},
        },
    }
    return {"application/json": {"schema": schema}}
