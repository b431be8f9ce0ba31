//! Chains of optional fields: `a.?b.c` is nothing where `a` has no `b`.
//!
//! The engine knows this for `a[?"b"]` only; so every step of such a chain becomes one of those.

use kube_cel::cel::common::ast::operators::{INDEX, OPT_INDEX, OPT_SELECT};
use kube_cel::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, LiteralValue};

/// Rewrites an expression in place; `optional_old` says that `oldSelf` itself is optional.
pub(super) fn rewrite(expression: &mut IdedExpr, optional_old: bool) {
    let below = |part: &mut IdedExpr| rewrite(part, optional_old);
    match &mut expression.expr {
        Expr::Call(call) => {
            call.target.iter_mut().for_each(|target| below(target));
            call.args.iter_mut().for_each(below);
            if call.func_name == OPT_SELECT {
                call.func_name = OPT_INDEX.into();
            }
        }
        Expr::Select(select) => {
            below(&mut select.operand);
            if !select.test && is_optional(&select.operand, optional_old) {
                let operand = std::mem::take(&mut *select.operand);
                let field = IdedExpr {
                    id: operand.id,
                    expr: Expr::Literal(LiteralValue::String(select.field.as_str().into())),
                };
                expression.expr = Expr::Call(CallExpr {
                    func_name: OPT_INDEX.into(),
                    target: None,
                    args: vec![operand, field],
                });
            }
        }
        Expr::Comprehension(of) => {
            for part in [
                &mut of.iter_range,
                &mut of.accu_init,
                &mut of.loop_cond,
                &mut of.loop_step,
                &mut of.result,
            ] {
                below(part);
            }
        }
        Expr::List(list) => list.elements.iter_mut().for_each(below),
        Expr::Map(map) => {
            for entry in &mut map.entries {
                match &mut entry.expr {
                    EntryExpr::MapEntry(entry) => {
                        below(&mut entry.key);
                        below(&mut entry.value);
                    }
                    EntryExpr::StructField(field) => below(&mut field.value),
                }
            }
        }
        Expr::Struct(_) | Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
    }
}

fn is_optional(expression: &IdedExpr, optional_old: bool) -> bool {
    match &expression.expr {
        Expr::Ident(name) => optional_old && name == "oldSelf",
        Expr::Call(call) if call.func_name == OPT_INDEX => true,
        Expr::Call(call) if call.func_name == INDEX => call
            .args
            .first()
            .is_some_and(|operand| is_optional(operand, optional_old)),
        _ => false,
    }
}
