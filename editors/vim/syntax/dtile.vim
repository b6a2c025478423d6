" SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
" Highlighting of dtile. The words are those of grammar/DtileLexer.g4; tests/check_keywords.py holds
" this file to it.
if exists('b:current_syntax')
  finish
endif

syntax case match

syntax keyword dtileDeclaration const fn import kernel let overlap plan role var
syntax keyword dtileControl after await break continue else ensures expect for if over return when while yield
syntax keyword dtileBoolean false true

" Context words, where they are no names.
syntax match dtileMode /:\s*\zs\%(inout\|in\|out\|scratch\|symm\)\>\ze\s\+\h/
syntax match dtileMode /\%(\<scratch\s\+\)\@<=symm\>/
syntax match dtileControl /\%(^\|[;{}]\)\s*\zs\%(assume\|requires\)\>\ze\s*[A-Za-z0-9_(!~-]/
syntax match dtileControl /\%(^\|[;{}]\)\s*\zsmesh\>\ze\s*(\s*\h\w*\s*:/
syntax match dtileControl /\<because\>\ze\s*"/
syntax match dtileControl /[A-Za-z0-9_)\]"]\s\+\zs\%(as\|atol\|by\|copy_engine\|in\|ordered\|programs\|ranks\|rtol\|unordered\|with\)\>/
syntax match dtileControl /\%(\<when\s\+\)\@<=all\>/
syntax match dtileDeclaration /\<\%(bench\|test\)\>\ze\s*"/
syntax match dtileDeclaration /\<extern\>\ze\s\+fn\>/

syntax keyword dtileType bool i8 i16 i32 i64 u8 u16 u32 u64
syntax keyword dtileType f8e4m3 f8e5m2 f16 bf16 f32 f64 dtype signal token

syntax match dtileFunction /\<\h\w*\>\ze(/
syntax match dtileFunction /\<\h\w*\>\ze<[^<>;{}]*>[(\[]/
syntax match dtileFunction /\%(\<\%(kernel\|fn\|overlap\|plan\|role\)\s\+\)\@<=\h\w*/

syntax match dtileNumber /\<\d[0-9_]*\>/
syntax match dtileNumber /\<0[xX]\x[0-9a-fA-F_]*\>/
syntax match dtileNumber /\<0[bB][01][01_]*\>/
syntax match dtileFloat /\<\d[0-9_]*\.\d[0-9_]*\%([eE][+-]\?\d[0-9_]*\)\?\>/
syntax match dtileFloat /\<\d[0-9_]*[eE][+-]\?\d[0-9_]*\>/

syntax match dtileOperator /[-+*%&|^!~<>=?@]/
syntax match dtileOperator /\/\ze[^\/*]/
syntax match dtileOperator /\.\./

syntax match dtileEscape /\\[ntr0\\"]/ contained
syntax region dtileString start=/"/ skip=/\\./ end=/"/ oneline contains=dtileEscape

syntax keyword dtileTodo TODO FIXME contained
syntax match dtileComment /\/\/.*$/ contains=dtileTodo,@Spell
syntax match dtileDocComment /\/\/[\/!].*$/ contains=dtileTodo,@Spell
syntax region dtileComment start=/\/\*/ end=/\*\// contains=dtileTodo,@Spell

highlight default link dtileDeclaration Keyword
highlight default link dtileControl Statement
highlight default link dtileMode StorageClass
highlight default link dtileBoolean Boolean
highlight default link dtileType Type
highlight default link dtileFunction Function
highlight default link dtileNumber Number
highlight default link dtileFloat Float
highlight default link dtileOperator Operator
highlight default link dtileEscape SpecialChar
highlight default link dtileString String
highlight default link dtileTodo Todo
highlight default link dtileComment Comment
highlight default link dtileDocComment SpecialComment

let b:current_syntax = 'dtile'
