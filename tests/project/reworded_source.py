"""Messages with other words: the source of a module with the letters of each word of a message reversed.

A message is a string literal with several words. Keys, states and codes are single words and keep their letters. Comparisons and patterns keep
theirs too, so a decision by the words of a message goes another way. Does not contain: which modules are changed (`reworded`).
"""

from __future__ import annotations

import ast
import re
from types import CodeType

WORD = re.compile(r"(?<![%{\w.-])[A-Z]?[a-z]+(?![\w.(-])")
"""A word of a sentence. Not a placeholder of a format, no part of a name with dots, dashes or digits, and no keyword of SQL."""
COMPARING = {
    "startswith",
    "endswith",
    "find",
    "index",
    "count",
    "partition",
    "split",
    "removeprefix",
    "replace",
    "compile",
}
"""Methods whose arguments are patterns."""
reworded: set[str] = set()
"""The literals that were changed."""


def reworded_text(text: str) -> str:
    """The same length and places of spaces, digits and placeholders."""
    return WORD.sub(lambda m: m[0][::-1], text)


class Reworder(ast.NodeTransformer):
    """Changes the messages of one module. Docstrings are no messages."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        value = node.value
        if isinstance(value, str) and len(WORD.findall(value)) > 1 and " " in value and "%(" not in value:
            reworded.add(value)
            return ast.copy_location(ast.Constant(reworded_text(value)), node)
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        """An f-string: its literal parts, if all of them together are several words."""
        text = " ".join(str(p.value) for p in node.values if isinstance(p, ast.Constant))
        if len(WORD.findall(text)) > 1:
            reworded.add(text)
            for part in node.values:
                if isinstance(part, ast.Constant):
                    part.value = reworded_text(str(part.value))
                else:
                    self.visit(part)
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        return node if isinstance(node.value, ast.Constant) else self._visit_children(node)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        return node

    def visit_match_case(self, node: ast.match_case) -> ast.match_case:
        node.body = [self.visit(n) for n in node.body]
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Attribute) and node.func.attr in COMPARING:
            node.func = self.visit(node.func)
            return node
        return self._visit_children(node)

    def _visit_children(self, node: ast.AST) -> ast.AST:
        return self.generic_visit(node)


def compile_reworded(source: str | bytes, path: str, mode: str = "exec") -> CodeType:
    tree = ast.parse(source, path, mode)
    code: CodeType = compile(ast.fix_missing_locations(Reworder().visit(tree)), path, mode)
    return code
