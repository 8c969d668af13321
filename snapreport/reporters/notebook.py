"""A short summary as HTML, for the cell of a notebook."""

from __future__ import annotations

from jinja2 import Environment

from snapreport.model.findings import Findings
from snapreport.reporters.plain_text import one_line
from snapreport.reporters.svg import HEIGHT, WIDTH, draw_curves
from snapreport.reporters.words import AMOUNT_HEADINGS, amount_rows, facts

_TEMPLATE = """\
<div><strong>{{ title }}</strong>
{% for device in devices %}
<p><strong>{{ device.name }}</strong> · {{ device.facts }}<br>{{ device.answer }}</p>
{% if device.rows %}
<svg viewBox="0 0 {{ width }} {{ height }}" width="480" height="96" preserveAspectRatio="none" \
role="img" aria-label="Allocated memory over the recording">
<path d="{{ device.curve }}" fill="currentColor" fill-opacity="0.4"/></svg>
<table><thead>
<tr>{% for heading in headings %}<th>{{ heading }}</th>{% endfor %}</tr>
</thead><tbody>
{% for row in device.rows %}
<tr><th>{{ row[0] }}</th>{% for cell in row[1:] %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table>
{% endif %}
{% for warning in device.warnings %}<p>⚠️ {{ warning }}</p>{% endfor %}
{% endfor %}
</div>
"""


def notebook_summary(findings: Findings) -> str:
    """Return the summary of every device."""
    shown = [
        {
            "name": str(device.device),
            "facts": facts(device),
            "answer": one_line(device.answer),
            "curve": draw_curves(device).allocated if len(device.history.allocations) else "",
            "rows": amount_rows(device) if len(device.history.allocations) else [],
            "warnings": [
                one_line(finding.title)
                for finding in device.diagnosis.findings
                if finding.severity != "note"
            ],
        }
        for device in findings.devices
    ]
    environment = Environment(autoescape=True, trim_blocks=True)
    return environment.from_string(_TEMPLATE).render(
        title=one_line(findings.title),
        devices=shown,
        headings=AMOUNT_HEADINGS,
        width=WIDTH,
        height=HEIGHT,
    )
