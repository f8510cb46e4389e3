"""A typed value as bytes with the ID of a schema, as Confluent's serializers write it. Pure.

Does not contain: the registry's client, the choice of a subject (`controlplane.services.record_encoding`), decoding (`weir_common.schema_formats`).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

from controlplane.domain.avro_encoding import encode_avro
from controlplane.domain.errors import MisfitValue, Rejected, not_json
from controlplane.domain.json_schema_encoding import encode_json
from controlplane.domain.protobuf_encoding import UnknownMessage, encode_protobuf
from controlplane.domain.value_faults import ValueMisfit
from weir_common.phrases import reason_of
from weir_common.schema_formats import MAGIC, Schema, SchemaType

JsonEncoder = Callable[[Schema, str], bytes]
TOO_DEEP = "The value is nested too deeply."


def encode_with_schema(
    schema: Schema, text: str, field: str, message_name: str = "", *, json_encoder: JsonEncoder = encode_json
) -> bytes:
    """The bytes of the JSON `text`. `message_name`: of a Protobuf schema. `json_encoder`: validates a value with a JSON Schema; the default has no limit
    of time, so that a schema of another author needs another one (`clients.json_schema_checks`). Raises Rejected with the field, MisfitValue with all faults that were found,
    and SchemaUnavailable."""
    try:
        return header(schema.id) + _payload(schema, text, message_name, json_encoder)
    except json.JSONDecodeError as error:
        raise not_json(error, field) from None
    except ValueMisfit as error:
        raise MisfitValue(field, [(f.path, f.sentence) for f in error.faults]) from None
    except UnknownMessage as error:
        raise Rejected(reason_of(error), f"{field}_message") from None
    except UnicodeEncodeError:
        raise Rejected("The text has a character that UTF-8 cannot encode.", field) from None
    except (ValueError, RecursionError):
        raise Rejected(TOO_DEEP, field) from None


def header(schema_id: int) -> bytes:
    """The zero byte and the schema's ID."""
    return struct.pack(">bI", MAGIC, schema_id)


def _payload(schema: Schema, text: str, message_name: str, json_encoder: JsonEncoder) -> bytes:
    match schema.type:
        case SchemaType.AVRO:
            return encode_avro(schema, text)
        case SchemaType.PROTOBUF:
            return encode_protobuf(schema, text, message_name)
        case SchemaType.JSON:
            return json_encoder(schema, text)
