#pragma once
// Tests only: short templates that spell calls of tools as those of model families do.

#include <string>

#include "formats/chat/tool_syntax.h"

namespace tern {

struct ToolTemplate {
  ToolForm form;
  std::string text;
};

inline const ToolTemplate kHermesTemplate{ToolForm::tagged, R"({%- if tools %}{{ '<|im_start|>system\n<tools>' }}
{%- for tool in tools %}{{ '\n' }}{{ tool | tojson }}{%- endfor %}{{ '\n</tools><|im_end|>\n' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'assistant' and message.tool_calls %}{{ '<|im_start|>assistant' }}
{%- if message.content %}{{ '\n' + message.content }}{%- endif %}
{%- for call in message.tool_calls %}{{ '\n<tool_call>\n{"name": "' + call.function.name + '", "arguments": ' }}{{ call.function.arguments | tojson }}{{ '}\n</tool_call>' }}{%- endfor %}{{ '<|im_end|>\n' }}
{%- elif message.role == 'tool' %}{{ '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
{%- else %}{{ '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{%- endif %}
{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{%- endif %})"};

inline const ToolTemplate kLlamaTemplate{ToolForm::bare, R"({%- for message in messages %}
{%- if loop.first and tools %}{{ 'Functions: ' }}{%- for t in tools %}{{ t | tojson }}{%- endfor %}{%- endif %}
{%- if message.role == 'tool' %}{{ '<|ipython|>\n\n' + message.content + '<|eot|>' }}
{%- elif 'tool_calls' in message %}{{ '<|assistant|>\n\n{"name": "' + message.tool_calls[0].function.name + '", "parameters": ' }}{{ message.tool_calls[0].function.arguments | tojson }}{{ '}<|eot|>' }}
{%- else %}{{ '<|' + message.role + '|>\n\n' + message.content + '<|eot|>' }}{%- endif %}
{%- endfor %}{%- if add_generation_prompt %}{{ '<|assistant|>\n\n' }}{%- endif %})"};

inline const ToolTemplate kMistralListTemplate{ToolForm::listed, R"({%- for message in messages %}
{%- if message.role == 'user' %}{%- if tools %}{{ '[AVAILABLE_TOOLS] ' }}{{ tools | tojson }}{{ '[/AVAILABLE_TOOLS]' }}{%- endif %}{{ '[INST] ' + message.content + '[/INST]' }}
{%- elif message.tool_calls %}{{ '[TOOL_CALLS] [' }}{%- for call in message.tool_calls %}
{%- if call.id | length != 9 %}{{ raise_exception('ids have nine letters') }}{%- endif %}{{ (call.function | tojson)[:-1] + ', "id": "' + call.id + '"}' }}{{ ', ' if not loop.last else '' }}{%- endfor %}{{ ']</s>' }}
{%- elif message.role == 'tool' %}{{ '[TOOL_RESULTS] {"content": ' + message.content + ', "call_id": "' + message.tool_call_id + '"}[/TOOL_RESULTS]' }}
{%- else %}{{ ' ' + message.content + '</s>' }}{%- endif %}
{%- endfor %})"};

inline const ToolTemplate kMistralNamedTemplate{
    ToolForm::named,
    R"({%- if tools %}{{ '[AVAILABLE_TOOLS]' }}{{ tools | tojson }}{{ '[/AVAILABLE_TOOLS]' }}{%- endif %}
{%- for message in messages %}
{%- if message.role == 'user' %}{{ '[INST]' + message.content + '[/INST]' }}
{%- elif message.tool_calls %}{{ message.content }}{%- for call in message.tool_calls %}{{ '[TOOL_CALLS]' + call.function.name + '[ARGS]' }}{{ call.function.arguments | tojson }}{%- endfor %}{{ '</s>' }}
{%- elif message.role == 'tool' %}{{ '[TOOL_RESULTS]' + message.content + '[/TOOL_RESULTS]' }}
{%- else %}{{ message.content + '</s>' }}{%- endif %}
{%- endfor %})"};

inline const ToolTemplate* const kToolTemplates[] = {&kHermesTemplate, &kLlamaTemplate, &kMistralListTemplate,
                                                     &kMistralNamedTemplate};

}  // namespace tern
