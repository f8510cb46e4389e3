"""Template tags of topic configs: the field that edits a config, and a value with its meaning."""

from __future__ import annotations

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from console import fragments
from controlplane.domain.config_units import hint
from controlplane.domain.topic_states import ConfigSource
from controlplane.selectors.topics import ConfigRow

register = template.Library()


@register.simple_tag
def config_field(config: ConfigRow, typed: dict[str, str], errors: dict[str, str]) -> SafeString:
    """The field of a config: a choice for enumerations and booleans, else a text with an example of its units. `errors`: problems by config."""
    value = typed.get(config.name, config.value if config.source == ConfigSource.TOPIC else "")
    error = errors.get(config.name, "")
    marks = format_html(' aria-invalid="true" aria-describedby="e:{}"', config.name) if error else ""
    if config.choices and (value in config.choices or not value):
        options = format_html_join(
            "",
            '<option value="{}"{}>{}</option>',
            (
                (
                    choice,
                    SafeString(" selected" if choice == value else ""),
                    choice or _("default ({default})").format(default=config.default),
                )
                for choice in ["", *config.choices]
            ),
        )
        field = format_html('<select id="c:{0}" name="c:{0}"{1}>{2}</select>', config.name, marks, options)
    else:
        field = format_html(
            '<input class="mono" id="c:{0}" name="c:{0}" value="{1}" placeholder="{2}" title="{3}"{4}>',
            config.name,
            value,
            fragments.exact_text(config.name, config.default),
            hint(config.name),
            marks,
        )
    meaning = fragments.config_text(config.name, value) if value else ""
    return format_html(
        "{}{}{}",
        field,
        format_html(' <span class="sub">{}</span>', meaning) if meaning else "",
        format_html('<p class="error" id="e:{}">{}</p>', config.name, error) if error else "",
    )


@register.simple_tag
def with_meaning(name: str, value: object) -> SafeString:
    """A value of a review, followed by its meaning as a duration or size."""
    meaning = fragments.config_text(str(name), str(value))
    return format_html("{} ({})", value, meaning) if meaning else format_html("{}", value)
