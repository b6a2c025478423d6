// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tokens of dtile. The lexer never fails: what starts no token is an UNEXPECTED_CHARACTER, and
// what is not closed has a token of its own, so that frontend/parse can say so with a place.
// README.md in this directory explains the rules; keywords are listed here and nowhere else.
lexer grammar DtileLexer;

// `<` and `>` around generic arguments. frontend/parse gives LESS and GREATER these types where a
// name stands before and `(` or `[` behind (README.md, "Generic arguments").
tokens { GENERIC_OPEN, GENERIC_CLOSE }

// Keywords: reserved everywhere.
AFTER: 'after';
AWAIT: 'await';
BREAK: 'break';
CONST: 'const';
CONTINUE: 'continue';
ELSE: 'else';
ENSURES: 'ensures';
EXPECT: 'expect';
FALSE: 'false';
FN: 'fn';
FOR: 'for';
IF: 'if';
IMPORT: 'import';
KERNEL: 'kernel';
LET: 'let';
OVER: 'over';
OVERLAP: 'overlap';
PLAN: 'plan';
RETURN: 'return';
ROLE: 'role';
TRUE: 'true';
VAR: 'var';
WHEN: 'when';
WHILE: 'while';
YIELD: 'yield';

// Context words: keywords in one place, names in all others. frontend/parse makes names of ASSUME,
// BECAUSE, MESH and REQUIRES where they start no clause (README.md, "Clauses"), and of EXTERN where
// no `fn` follows.
ALL: 'all';
AS: 'as';
ASSUME: 'assume';
ATOL: 'atol';
BECAUSE: 'because';
BENCH: 'bench';
BY: 'by';
COPY_ENGINE: 'copy_engine';
EXTERN: 'extern';
IN: 'in';
INOUT: 'inout';
MESH: 'mesh';
ORDERED: 'ordered';
OUT: 'out';
PROGRAMS: 'programs';
RANKS: 'ranks';
REQUIRES: 'requires';
RTOL: 'rtol';
SCRATCH: 'scratch';
SYMM: 'symm';
TEST: 'test';
UNORDERED: 'unordered';
WITH: 'with';

// Punctuation.
LEFT_PAREN: '(';
RIGHT_PAREN: ')';
LEFT_BRACKET: '[';
RIGHT_BRACKET: ']';
LEFT_BRACE: '{';
RIGHT_BRACE: '}';
COMMA: ',';
SEMICOLON: ';';
COLON: ':';
QUESTION: '?';
DOT: '.';
DOT_DOT: '..';
AT: '@';
ARROW: '->';

// Operators.
ASSIGN: '=';
PLUS_ASSIGN: '+=';
MINUS_ASSIGN: '-=';
STAR_ASSIGN: '*=';
SLASH_ASSIGN: '/=';
PERCENT_ASSIGN: '%=';
AMPERSAND_ASSIGN: '&=';
BAR_ASSIGN: '|=';
CARET_ASSIGN: '^=';
SHIFT_LEFT_ASSIGN: '<<=';
SHIFT_RIGHT_ASSIGN: '>>=';
APPROXIMATELY: '~=';
OR_OR: '||';
AND_AND: '&&';
EQUAL: '==';
NOT_EQUAL: '!=';
LESS: '<';
LESS_EQUAL: '<=';
GREATER: '>';
GREATER_EQUAL: '>=';
BAR: '|';
CARET: '^';
AMPERSAND: '&';
SHIFT_LEFT: '<<';
SHIFT_RIGHT: '>>';
PLUS: '+';
MINUS: '-';
STAR: '*';
SLASH: '/';
PERCENT: '%';
NOT: '!';
TILDE: '~';

NAME: [a-zA-Z_] [a-zA-Z0-9_]*;

// `0..W` is an integer, a range and a name: a float has a digit behind its point.
FLOAT
  : DIGITS '.' DIGITS EXPONENT?
  | DIGITS EXPONENT
  ;
INTEGER
  : DIGITS
  | '0' [xX] [0-9a-fA-F] [0-9a-fA-F_]*
  | '0' [bB] [01] [01_]*
  ;
MALFORMED_NUMBER: [0-9] [0-9a-zA-Z_]* ('.' [0-9] [0-9a-zA-Z_]*)?;
fragment DIGITS: [0-9] [0-9_]*;
fragment EXPONENT: [eE] [+\-]? [0-9] [0-9_]*;

STRING: '"' STRING_ITEM* '"';
UNTERMINATED_STRING: '"' STRING_ITEM* '\\'?;
fragment STRING_ITEM
  : ~["\\\r\n]
  | '\\' ~[\r\n]
  ;

MODULE_COMMENT: '//!' ~[\r\n]* -> channel(HIDDEN);
DOC_COMMENT: '///' ~[\r\n]* -> channel(HIDDEN);
LINE_COMMENT: '//' ~[\r\n]* -> channel(HIDDEN);
BLOCK_COMMENT: '/*' COMMENT_ITEM* '*'+ '/' -> channel(HIDDEN);
UNTERMINATED_COMMENT: '/*' COMMENT_ITEM* '*'* -> channel(HIDDEN);
fragment COMMENT_ITEM
  : ~'*'
  | '*'+ ~[*/]
  ;

SPACE: [ \t\r\n]+ -> skip;

UNEXPECTED_CHARACTER: .;
