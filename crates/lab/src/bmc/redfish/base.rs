//! The Base registry: one table, used for answers and served to clients.

use serde_json::{Map, Value, json};

use super::messages::{Row, Severity};

/// The registry and its version, as they begin a MessageId.
pub const REGISTRY: &str = "Base.1.18";

const fn row(
    status: u16,
    key: &'static str,
    severity: Severity,
    text: &'static str,
    resolution: &'static str,
) -> Row {
    Row {
        key,
        status,
        text,
        severity,
        resolution,
    }
}

pub const SUCCESS: Row = row(200, "Success", Severity::Ok, "Done.", "None.");
pub const GENERAL_ERROR: Row = row(
    400,
    "GeneralError",
    Severity::Critical,
    "More than one thing is wrong; see the extended information.",
    "Correct each of them and send the request again.",
);
pub const MALFORMED_JSON: Row = row(
    400,
    "MalformedJSON",
    Severity::Critical,
    "The body is not the JSON it should be: %1.",
    "Send one valid JSON object.",
);
pub const PROPERTY_UNKNOWN: Row = row(
    400,
    "PropertyUnknown",
    Severity::Warning,
    "There is no property %1 here.",
    "Leave the property out.",
);
pub const PROPERTY_NOT_WRITABLE: Row = row(
    400,
    "PropertyNotWritable",
    Severity::Warning,
    "The property %1 can be read but not written.",
    "Leave the property out.",
);
pub const PROPERTY_MISSING: Row = row(
    400,
    "PropertyMissing",
    Severity::Warning,
    "The property %1 is needed and not there.",
    "Add the property.",
);
pub const PROPERTY_VALUE_TYPE: Row = row(
    400,
    "PropertyValueTypeError",
    Severity::Warning,
    "The value %1 of the property %2 has the wrong type.",
    "Send a value of the right type.",
);
pub const PROPERTY_VALUE_NOT_IN_LIST: Row = row(
    400,
    "PropertyValueNotInList",
    Severity::Warning,
    "The value %1 is not one that the property %2 can have.",
    "Choose a value from the list.",
);
pub const PROPERTY_VALUE_FORMAT: Row = row(
    400,
    "PropertyValueFormatError",
    Severity::Warning,
    "The value %1 of the property %2 is not well formed.",
    "Correct the value.",
);
pub const PROPERTY_VALUE_CONFLICT: Row = row(
    409,
    "PropertyValueConflict",
    Severity::Warning,
    "The property %1 cannot have this value because of %2.",
    "Change one of the two.",
);
pub const PARAMETER_UNKNOWN: Row = row(
    400,
    "ActionParameterUnknown",
    Severity::Warning,
    "The action %1 has no parameter %2.",
    "Leave the parameter out.",
);
pub const PARAMETER_MISSING: Row = row(
    400,
    "ActionParameterMissing",
    Severity::Critical,
    "The action %1 needs the parameter %2.",
    "Add the parameter.",
);
pub const PARAMETER_VALUE_TYPE: Row = row(
    400,
    "ActionParameterValueTypeError",
    Severity::Warning,
    "The value %1 of the parameter %2 of the action %3 has the wrong type.",
    "Send a value of the right type.",
);
pub const PARAMETER_VALUE_NOT_IN_LIST: Row = row(
    400,
    "ActionParameterValueNotInList",
    Severity::Warning,
    "The value %1 is not one that the parameter %2 of the action %3 can have.",
    "Choose a value from the list.",
);
pub const PARAMETER_VALUE_FORMAT: Row = row(
    400,
    "ActionParameterValueFormatError",
    Severity::Warning,
    "The value %1 of the parameter %2 of the action %3 is not well formed.",
    "Correct the value.",
);
pub const PARAMETER_VALUE_CONFLICT: Row = row(
    409,
    "ActionParameterValueConflict",
    Severity::Warning,
    "The parameter %1 with the value %2 does not fit the state of the resource.",
    "Wait for another state, or choose another value.",
);
pub const PARAMETER_VALUE_ERROR: Row = row(
    400,
    "ActionParameterValueError",
    Severity::Warning,
    "The parameter %1 of the action %2 cannot be used.",
    "Correct the value.",
);
pub const ACTION_NOT_SUPPORTED: Row = row(
    400,
    "ActionNotSupported",
    Severity::Critical,
    "The action %1 is not possible on this resource.",
    "Use another resource of the collection.",
);
pub const SOURCE_PROTOCOL: Row = row(
    400,
    "SourceDoesNotSupportProtocol",
    Severity::Critical,
    "The other end of %1 cannot be reached by protocol %2.",
    "Use http or https.",
);
pub const COULD_NOT_CONNECT: Row = row(
    502,
    "CouldNotEstablishConnection",
    Severity::Critical,
    "No connection to %1.",
    "See that the address is right and that the BMC can reach it.",
);
pub const NO_VALID_SESSION: Row = row(
    401,
    "NoValidSession",
    Severity::Critical,
    "There is no valid session.",
    "Log in and send the request again.",
);
pub const SESSION_LIMIT: Row = row(
    503,
    "SessionLimitExceeded",
    Severity::Critical,
    "All sessions are taken.",
    "Close one, or wait for one to time out.",
);
pub const UNAUTHORIZED: Row = row(
    401,
    "ResourceAtUriUnauthorized",
    Severity::Critical,
    "User and password do not open %1.",
    "Correct the credentials.",
);
pub const MISSING_AT_URI: Row = row(
    404,
    "ResourceMissingAtURI",
    Severity::Critical,
    "There is nothing at %1.",
    "Correct the address.",
);
pub const METHOD_NOT_ALLOWED: Row = row(
    405,
    "OperationNotAllowed",
    Severity::Critical,
    "%1 is not possible here; %2 is.",
    "Use a method that the Allow header names.",
);
pub const RESOURCE_IN_USE: Row = row(
    409,
    "ResourceInUse",
    Severity::Warning,
    "The resource is being changed by someone else.",
    "Try again in a moment.",
);
pub const PRECONDITION_FAILED: Row = row(
    412,
    "PreconditionFailed",
    Severity::Critical,
    "A header asks for something other than what there is.",
    "Read it again and send the request with the new ETag.",
);
pub const PRECONDITION_REQUIRED: Row = row(
    428,
    "PreconditionRequired",
    Severity::Critical,
    "A change needs an If-Match header.",
    "Send the ETag of the resource as If-Match.",
);
pub const PAYLOAD_TOO_LARGE: Row = row(
    413,
    "PayloadTooLarge",
    Severity::Critical,
    "The body has more than %1 bytes.",
    "Send less.",
);
pub const MEDIA_TYPE: Row = row(
    415,
    "UnsupportedMediaType",
    Severity::Critical,
    "The body is declared as %1, not as application/json.",
    "Set the Content-Type header.",
);
pub const QUERY_UNSUPPORTED: Row = row(
    501,
    "QueryParameterUnsupported",
    Severity::Warning,
    "The query parameter %1 is not supported.",
    "Leave it out.",
);
pub const QUERY_FORMAT: Row = row(
    400,
    "QueryParameterValueFormatError",
    Severity::Warning,
    "The value %1 of the query parameter %2 is not well formed.",
    "Correct the value.",
);
pub const LIMIT_REACHED: Row = row(
    400,
    "CreateLimitReachedForResource",
    Severity::Critical,
    "No more of these can be created.",
    "Delete one first.",
);
pub const INTERNAL_ERROR: Row = row(
    500,
    "InternalError",
    Severity::Critical,
    "The BMC failed.",
    "Try again; if it goes on, reset the BMC.",
);
pub const INSUFFICIENT_STORAGE: Row = row(
    507,
    "InsufficientStorage",
    Severity::Critical,
    "There is no room for this on the BMC.",
    "Free some.",
);
pub const UNAVAILABLE: Row = row(
    503,
    "ServiceTemporarilyUnavailable",
    Severity::Critical,
    "The BMC cannot answer now. Try again in %1 seconds.",
    "Wait, then try again.",
);

/// The whole registry.
pub const ALL: &[Row] = &[
    SUCCESS,
    GENERAL_ERROR,
    MALFORMED_JSON,
    PROPERTY_UNKNOWN,
    PROPERTY_NOT_WRITABLE,
    PROPERTY_MISSING,
    PROPERTY_VALUE_TYPE,
    PROPERTY_VALUE_NOT_IN_LIST,
    PROPERTY_VALUE_FORMAT,
    PROPERTY_VALUE_CONFLICT,
    PARAMETER_UNKNOWN,
    PARAMETER_MISSING,
    PARAMETER_VALUE_TYPE,
    PARAMETER_VALUE_NOT_IN_LIST,
    PARAMETER_VALUE_FORMAT,
    PARAMETER_VALUE_CONFLICT,
    PARAMETER_VALUE_ERROR,
    ACTION_NOT_SUPPORTED,
    SOURCE_PROTOCOL,
    COULD_NOT_CONNECT,
    NO_VALID_SESSION,
    SESSION_LIMIT,
    UNAUTHORIZED,
    MISSING_AT_URI,
    METHOD_NOT_ALLOWED,
    RESOURCE_IN_USE,
    PRECONDITION_FAILED,
    PRECONDITION_REQUIRED,
    PAYLOAD_TOO_LARGE,
    MEDIA_TYPE,
    QUERY_UNSUPPORTED,
    QUERY_FORMAT,
    LIMIT_REACHED,
    INTERNAL_ERROR,
    INSUFFICIENT_STORAGE,
    UNAVAILABLE,
];

/// The registry itself, as clients download it.
pub fn render_registry() -> Value {
    let messages: Map<String, Value> = ALL
        .iter()
        .map(|row| {
            let count = row.placeholders();
            let message = json!({
                "Description": row.text,
                "Message": row.text,
                "Severity": row.severity.as_str(),
                "MessageSeverity": row.severity.as_str(),
                "NumberOfArgs": count,
                "ParamTypes": vec!["string"; count],
                "Resolution": row.resolution,
            });
            (row.key.to_string(), message)
        })
        .collect();
    json!({
        "@odata.type": "#MessageRegistry.v1_6_2.MessageRegistry",
        "Id": "Base.1.18.0",
        "Name": "Base Message Registry",
        "Language": "en",
        "Description": "The messages of this service",
        "RegistryPrefix": "Base",
        "RegistryVersion": "1.18.0",
        "OwningEntity": "DMTF",
        "Messages": messages,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_unique() {
        let keys: std::collections::BTreeSet<_> = ALL.iter().map(|row| row.key).collect();
        assert_eq!(keys.len(), ALL.len());
    }
}
