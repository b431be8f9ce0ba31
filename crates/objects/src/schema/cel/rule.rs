//! One rule: read once, evaluated for every value.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::KubeCelExt;
use kube_cel::cel::common::ast::IdedExpr;
use kube_cel::cel::functions::time;
use kube_cel::cel::parser::Parser;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value as Cel};
use serde_json::{Value, json};

use super::chain::rewrite;
use super::value::{optional, to_cel};
use crate::json::text;
use crate::path::Path;
use crate::schema::format::Format;
use crate::schema::node::Node;
use crate::status::Cause;

/// One rule of `x-kubernetes-validations`.
#[derive(Debug)]
pub(super) struct Rule {
    expression: IdedExpr,
    message_expression: Option<IdedExpr>,
    /// The rule itself, or what its author says about it.
    message: String,
    written: String,
    reason: String,
    field_path: String,
    /// It compares with what was before.
    transition: bool,
    /// `oldSelf` is there also when there was nothing before, as an optional.
    optional_old: bool,
}

thread_local! {
    static FUNCTIONS: Context<'static> = functions();
}

/// Kubernetes' functions. Times are taken where a text is; addresses and URLs are as strict as in Go.
fn functions() -> Context<'static> {
    let mut context = Context::default().with_all();
    context.add_function("timestamp", |value: Cel| timed(value, time::timestamp));
    context.add_function("duration", |value: Cel| timed(value, time::duration));
    context.add_function("lists.range", range);
    context.add_function("isCIDR", |text: Arc<String>| Format::Cidr.holds(&text));
    context.add_function("isURL", |text: Arc<String>| Format::Uri.holds(&text));
    context
}

/// No rule makes a longer list out of nothing.
pub(super) const LONGEST_RANGE: i64 = 10_000;

fn range(length: i64) -> ResolveResult {
    if !(0..=LONGEST_RANGE).contains(&length) {
        let why = format!("must be between 0 and {LONGEST_RANGE}");
        return Err(ExecutionError::function_error("lists.range", why));
    }
    Ok(Cel::List(Arc::new((0..length).map(Cel::Int).collect())))
}

fn timed(value: Cel, read: fn(Arc<String>) -> ResolveResult) -> ResolveResult {
    match value {
        Cel::String(text) => read(text),
        Cel::Timestamp(_) | Cel::Duration(_) => Ok(value),
        _ => Err(ExecutionError::NoSuchOverload),
    }
}

impl Rule {
    pub(super) fn read(rule: &Value) -> Result<Self, String> {
        let optional_old = rule["optionalOldSelf"] == true;
        let parse = |text: &str| {
            let parser = Parser::new().enable_optional_syntax(true);
            let parsed = guarded(|| parser.parse(text)).ok_or("the parser gave up")?;
            let mut parsed = parsed.map_err(|error| error.to_string())?;
            rewrite(&mut parsed, optional_old);
            Ok::<_, String>(parsed)
        };
        let written = text(rule, "/rule");
        let expression = parse(written)?;
        let message_expression = match text(rule, "/messageExpression") {
            "" => None,
            text => Some(parse(text)?),
        };
        let transition = expression.references().has_variable("oldSelf");
        Ok(Self {
            expression,
            message_expression,
            message: match text(rule, "/message") {
                "" => format!("failed rule: {written}"),
                message => message.into(),
            },
            written: written.into(),
            reason: text(rule, "/reason").into(),
            field_path: text(rule, "/fieldPath").into(),
            transition,
            optional_old,
        })
    }

    /// Whether the rule makes lists of its own.
    pub(super) fn makes_lists(&self) -> bool {
        self.written.contains("lists.range")
    }

    /// How deep the rule loops within loops.
    pub(super) fn loops(&self) -> u32 {
        loops(&self.written)
    }

    /// What the rule has to say against a value.
    pub(super) fn objection(
        &self,
        node: &Node,
        value: &Value,
        old: Option<&Value>,
    ) -> Option<String> {
        if self.transition && old.is_none() && !self.optional_old {
            return None;
        }
        let outcome = guarded(|| self.evaluate(node, value, old));
        outcome.unwrap_or_else(|| {
            Some(format!(
                "the evaluation failed evaluating rule: {}",
                self.message
            ))
        })
    }

    fn evaluate(&self, node: &Node, value: &Value, old: Option<&Value>) -> Option<String> {
        FUNCTIONS.with(|functions| {
            let mut context = functions.new_inner_scope();
            context.add_variable_from_value("self", to_cel(Some(node), value));
            if self.transition {
                let old = old.map(|old| to_cel(Some(node), old));
                let old = if self.optional_old {
                    optional(old)
                } else {
                    old.unwrap_or(Cel::Null)
                };
                context.add_variable_from_value("oldSelf", old);
            }
            match Cel::resolve(&self.expression, &context) {
                Ok(Cel::Bool(true)) => None,
                Ok(Cel::Bool(false)) => Some(self.message(&context)),
                Ok(_) => Some(format!("rule {:?} did not evaluate to bool", self.written)),
                Err(error) => Some(format!(
                    "{} evaluating rule: {}",
                    said(&error),
                    self.message
                )),
            }
        })
    }

    fn message(&self, context: &Context<'_>) -> String {
        let made = self
            .message_expression
            .as_ref()
            .and_then(|message| Cel::resolve(message, context).ok());
        match made {
            Some(Cel::String(message)) if !message.trim().is_empty() => message.trim().into(),
            _ => self.message.clone(),
        }
    }

    /// The objection as a cause, at the value's place or below it.
    pub(super) fn cause(&self, message: &str, path: Path<'_>, type_name: &str) -> Cause {
        let below = self.field_path.trim_start_matches('.');
        let at = match (path.to_string().as_str(), below) {
            (path, "") => path.to_owned(),
            ("", below) => below.to_owned(),
            (path, below) => format!("{path}.{below}"),
        };
        match self.reason.as_str() {
            "FieldValueRequired" => Cause::required(at, message),
            "FieldValueForbidden" => Cause::forbidden(at, message),
            "FieldValueDuplicate" => Cause::duplicate(at, &json!(message)),
            _ => Cause::invalid(at, &json!(type_name), message),
        }
    }
}

/// The engine is not ours, and its arithmetic may panic (the negative of the least integer): one rule must not end a
/// request.
fn guarded<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// What went wrong, as Kubernetes begins it.
fn said(error: &ExecutionError) -> String {
    let text = error.to_string();
    let mut chars = text.chars();
    match chars.next() {
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => text,
    }
}

/// How deep the text loops within loops: `all`, `exists`, `map` and their like inside of one another's brackets.
pub(super) fn loops(rule: &str) -> u32 {
    const LOOPS: [&str; 6] = [
        ".all",
        ".exists",
        ".exists_one",
        ".existsOne",
        ".map",
        ".filter",
    ];
    let (mut open, mut most) = (vec![], 0);
    for (at, c) in rule.char_indices() {
        match c {
            '(' | '[' | '{' => {
                let before = rule[..at].trim_end();
                open.push(c == '(' && LOOPS.iter().any(|word| before.ends_with(word)));
                most = most.max(open.iter().filter(|is_loop| **is_loop).count());
            }
            ')' | ']' | '}' => {
                open.pop();
            }
            _ => {}
        }
    }
    most as u32
}
