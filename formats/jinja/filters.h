#pragma once
// The filters, one function each. Named as templates name them.

#include "formats/jinja/eval.h"

namespace tern::jinja {

/// Jinja's soft_str: str() of a value of any type.
MarkedText soft_text(Evaluator&, const Value&);

namespace filters {

Value abs(Evaluator&, const Value&, const CallArguments&);
Value attr(Evaluator&, const Value&, const CallArguments&);
Value batch(Evaluator&, const Value&, const CallArguments&);
Value capitalize(Evaluator&, const Value&, const CallArguments&);
Value center(Evaluator&, const Value&, const CallArguments&);
Value default_(Evaluator&, const Value&, const CallArguments&);
Value dictsort(Evaluator&, const Value&, const CallArguments&);
Value escape(Evaluator&, const Value&, const CallArguments&);
Value first(Evaluator&, const Value&, const CallArguments&);
Value float_(Evaluator&, const Value&, const CallArguments&);
Value format(Evaluator&, const Value&, const CallArguments&);
Value indent(Evaluator&, const Value&, const CallArguments&);
Value int_(Evaluator&, const Value&, const CallArguments&);
Value items(Evaluator&, const Value&, const CallArguments&);
Value join(Evaluator&, const Value&, const CallArguments&);
Value last(Evaluator&, const Value&, const CallArguments&);
Value length(Evaluator&, const Value&, const CallArguments&);
Value list(Evaluator&, const Value&, const CallArguments&);
Value lower(Evaluator&, const Value&, const CallArguments&);
Value map(Evaluator&, const Value&, const CallArguments&);
Value max(Evaluator&, const Value&, const CallArguments&);
Value min(Evaluator&, const Value&, const CallArguments&);
Value reject(Evaluator&, const Value&, const CallArguments&);
Value rejectattr(Evaluator&, const Value&, const CallArguments&);
Value replace(Evaluator&, const Value&, const CallArguments&);
Value reverse(Evaluator&, const Value&, const CallArguments&);
Value round(Evaluator&, const Value&, const CallArguments&);
Value safe(Evaluator&, const Value&, const CallArguments&);
Value select(Evaluator&, const Value&, const CallArguments&);
Value selectattr(Evaluator&, const Value&, const CallArguments&);
Value sort(Evaluator&, const Value&, const CallArguments&);
Value string(Evaluator&, const Value&, const CallArguments&);
Value sum(Evaluator&, const Value&, const CallArguments&);
Value title(Evaluator&, const Value&, const CallArguments&);
Value tojson(Evaluator&, const Value&, const CallArguments&);
Value trim(Evaluator&, const Value&, const CallArguments&);
Value truncate(Evaluator&, const Value&, const CallArguments&);
Value unique(Evaluator&, const Value&, const CallArguments&);
Value upper(Evaluator&, const Value&, const CallArguments&);

}  // namespace filters
}  // namespace tern::jinja
