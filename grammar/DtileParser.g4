// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The syntax of dtile. README.md in this directory explains it, a section a rule group.
//
// Every choice is decided by one token (LL(1)), so no prediction runs: text of 50,000 lines parses
// in a fraction of a second. Three things serve that:
//   - binary operators are a flat list here; frontend/parse applies the precedences;
//   - `list: item (',' item?)*` allows the trailing comma; frontend/parse rejects `,,`;
//   - a label (`seed: 7`) and a target (`x = 7`) parse as expressions; frontend/parse checks them.
// The compiler calls `declaration` once a declaration; `module` serves other tools.
parser grammar DtileParser;

options { tokenVocab = DtileLexer; }

// ---- Declarations ----

module: declarations+=declaration* EOF;

declaration
  : imported=importDeclaration
  | constant=constDeclaration
  | function=fnDeclaration
  | kernel=kernelDeclaration
  | plan=planDeclaration
  | overlap=overlapDeclaration
  | test=testDeclaration
  ;

importDeclaration
  : IMPORT (file=STRING | parts+=name (DOT parts+=name)*) (AS alias=name)? SEMICOLON
  ;

constDeclaration: CONST id=name (COLON annotation=type)? ASSIGN value=expression SEMICOLON;

// An `extern fn` has instructions for targets, `= nvptx("…") | amdgpu("…")`, before its body.
fnDeclaration
  : external=EXTERN? FN id=name generics=genericParameters? parameters=parameterList
    (ARROW (result=type | LEFT_PAREN results+=type (COMMA results+=type?)* RIGHT_PAREN))?
    ( ASSIGN instructions+=instructionText (BAR instructions+=instructionText)*
      (body=block | SEMICOLON)
    | body=block
    )
  ;

instructionText: target=name LEFT_PAREN lines+=STRING (COMMA lines+=STRING?)* RIGHT_PAREN;

kernelDeclaration
  : KERNEL id=name generics=genericParameters? parameters=parameterList
    ( ASSIGN alternatives+=name (BAR alternatives+=name)* SEMICOLON
    | over=overClause? open=LEFT_BRACE items+=kernelItem* close=RIGHT_BRACE
    )
  ;

kernelItem
  : roleItem=role
  | ensuresItem=ensures
  | requiresItem=requiresClause
  | meshItem=meshClause
  | statementItem=statement
  ;

// Spaces of transfers, or the plans to choose from: `= push | pull;`
planDeclaration
  : PLAN id=name generics=genericParameters? parameters=parameterList
    ( LEFT_BRACE items+=planItem* RIGHT_BRACE
    | ASSIGN alternatives+=postfix (BAR alternatives+=postfix)* SEMICOLON
    )
  ;

planItem
  : roleItem=role
  | space=planSpace
  | ensuresItem=ensures
  | requiresItem=requiresClause
  | meshItem=meshClause
  | letItem=letStatement
  ;

planSpace: over=overClause body=block;

// One kernel and its plans, or a graph of kernels and plans.
overlapDeclaration
  : OVERLAP id=name
    ( ASSIGN kernel=postfix WITH
      LEFT_BRACE (word=MESH mesh=meshAxes COMMA)? joins+=overlapJoin (COMMA joins+=overlapJoin?)*
      RIGHT_BRACE SEMICOLON
    | generics=genericParameters? parameters=parameterList
      LEFT_BRACE items+=overlapItem* RIGHT_BRACE
    )
  ;

// `a <- all_gather(shard)`, `c -> reduce_scatter(out)`
overlapJoin: tensor=name (LESS MINUS | produces=ARROW) plan=postfix;

overlapItem
  : ensuresItem=ensures
  | requiresItem=requiresClause
  | meshItem=meshClause
  | step=overlapStep
  ;

// `let h = swiglu(all_gather(x), g, u);`, `y = reduce_scatter(gemm(h, w));`
overlapStep
  : let=LET? (names+=name | LEFT_PAREN names+=name (COMMA names+=name?)* RIGHT_PAREN)
    ASSIGN value=expression SEMICOLON
  ;

role: ROLE id=name over=overClause? body=block join=whenAll?;

whenAll
  : WHEN ALL (LEFT_PAREN names+=name (COMMA names+=name?)* RIGHT_PAREN)? over=overClause? body=block
  ;

ensures: ENSURES condition=expectation SEMICOLON;

requiresClause: REQUIRES conditions+=expression (COMMA conditions+=expression?)* SEMICOLON;

// `mesh (node: W / L, local: L);`
meshClause: MESH mesh=meshAxes SEMICOLON;

meshAxes: LEFT_PAREN axes+=meshAxis (COMMA axes+=meshAxis?)* RIGHT_PAREN;

meshAxis: id=name COLON extent=expression;

testDeclaration
  : kind=(TEST | BENCH) title=STRING
    (RANKS LEFT_PAREN ranks+=rankCount (COMMA ranks+=rankCount?)* RIGHT_PAREN)?
    body=block
  ;

// `8`, and `(2, 4)`: the axes of a mesh.
rankCount
  : LEFT_PAREN axes+=expression COMMA (axes+=expression (COMMA axes+=expression?)*)? RIGHT_PAREN
  | number=expression
  ;

genericParameters
  : GENERIC_OPEN items+=genericParameter (COMMA items+=genericParameter?)* GENERIC_CLOSE
  ;

genericParameter
  : CONST? id=name (COLON annotation=type)? (ASSIGN defaultValue=expression)?
  ;

parameterList: LEFT_PAREN (items+=parameter (COMMA items+=parameter?)*)? RIGHT_PAREN;

parameter: id=name COLON passing=parameterMode? annotation=type (ASSIGN init=expression)?;

parameterMode
  : IN
  | OUT
  | INOUT
  | SYMM
  | SCRATCH SYMM
  ;

overClause
  : OVER LEFT_PAREN dims+=iteration (COMMA dims+=iteration?)* RIGHT_PAREN options+=overOption*
  ;

overOption
  : ORDERED
  | PROGRAMS LEFT_PAREN programs=expression RIGHT_PAREN
  | COPY_ENGINE (LEFT_PAREN copyEngine=expression RIGHT_PAREN)?
  ;

// `m in M by BM`, `hop in 0..W`
iteration: id=name IN lo=expression (DOT_DOT hi=expression)? (BY step=expression)?;

// ---- Types ----

type: id=NAME (open=LEFT_BRACKET (sizes+=expression (COMMA sizes+=expression?)*)? RIGHT_BRACKET)?;

// ---- Statements ----

block: LEFT_BRACE statements+=statement* RIGHT_BRACE;

statement
  : let=letStatement
  | var=varStatement
  | loop=forStatement
  | whileLoop=whileStatement
  | branch=ifStatement
  | returned=returnStatement
  | yielded=yieldStatement
  | left=breakStatement
  | awaited=awaitStatement
  | expected=expectStatement
  | assumed=assumeStatement
  | nested=block
  | simple=simpleStatement
  ;

letStatement
  : LET (names+=name | LEFT_PAREN names+=name (COMMA names+=name?)* RIGHT_PAREN)
    (COLON annotation=type)? ASSIGN value=rangeExpression SEMICOLON
  ;

varStatement: VAR id=name (COLON annotation=type)? ASSIGN value=rangeExpression SEMICOLON;

// Several iterations are a mistake that is said when the tree is built.
forStatement: FOR head=iteration (commas+=COMMA more+=iteration)* unordered=UNORDERED? body=block;

whileStatement: WHILE condition=expression body=block;

ifStatement: IF condition=expression then=block branches+=elseBranch*;

elseBranch: ELSE (IF condition=expression)? body=block;

returnStatement: RETURN (values+=expression (COMMA values+=expression?)*)? SEMICOLON;

yieldStatement: YIELD values+=expression (COMMA values+=expression?)* SEMICOLON;

// Leaves the innermost loop, or goes on with its next iteration.
breakStatement: word=(BREAK | CONTINUE) SEMICOLON;

awaitStatement: AWAIT value=expression SEMICOLON;

expectStatement: EXPECT condition=expectation SEMICOLON;

assumeStatement: ASSUME condition=expression BECAUSE reason=STRING SEMICOLON;

expectation
  : lhs=expression (approximately=APPROXIMATELY rhs=expression)? tolerances+=tolerance*
  ;

tolerance: kind=(RTOL | ATOL) value=expression;

// An assignment, or an expression for its effect.
simpleStatement
  : target=expression
    ( operator_=( ASSIGN | PLUS_ASSIGN | MINUS_ASSIGN | STAR_ASSIGN | SLASH_ASSIGN | PERCENT_ASSIGN
                | AMPERSAND_ASSIGN | BAR_ASSIGN | CARET_ASSIGN | SHIFT_LEFT_ASSIGN
                | SHIFT_RIGHT_ASSIGN )
      value=rangeExpression
    )?
    SEMICOLON
  ;

// ---- Expressions ----

// `lo..hi`, `lo..`, `..hi`: weaker than every operator.
rangeExpression
  : lo=expression (DOT_DOT hi=expression?)?
  | DOT_DOT hi=expression?
  ;

expression
  : operands+=operand
    ( operators+=( OR_OR | AND_AND | EQUAL | NOT_EQUAL | LESS | LESS_EQUAL | GREATER
                 | GREATER_EQUAL | BAR | CARET | AMPERSAND | SHIFT_LEFT | SHIFT_RIGHT | PLUS
                 | MINUS | STAR | SLASH | PERCENT )
      operands+=operand
    )*
    (QUESTION whenTrue=expression COLON whenFalse=expression)?
  ;

operand: prefixes+=(MINUS | NOT | TILDE)* value=postfix (AFTER tokens+=postfix)*;

postfix
  : ( atom=( NAME | INTEGER | FLOAT | STRING | TRUE | FALSE
           | ALL | AS | ATOL | BY | COPY_ENGINE | IN | INOUT | ORDERED | OUT | PROGRAMS | RANKS
           | RTOL | SCRATCH | SYMM | UNORDERED | WITH )
    | LEFT_PAREN items+=rangeExpression (COMMA items+=rangeExpression?)* RIGHT_PAREN
    )
    suffixes+=suffix*
  ;

suffix
  : LEFT_PAREN (arguments+=argument (COMMA arguments+=argument?)*)? close=RIGHT_PAREN # Call
  | LEFT_BRACKET (indices+=index (COMMA indices+=index?)*)? close=RIGHT_BRACKET # Subscript
  | DOT member=name # Member
  | GENERIC_OPEN arguments+=genericArgument (COMMA arguments+=genericArgument?)*
    close=GENERIC_CLOSE # Generic
  | AT ( rank=name | number=INTEGER
       | LEFT_PAREN arguments+=argument (COMMA arguments+=argument?)* RIGHT_PAREN
       ) # Remote
  ;

// `x`, `seed: 7`, `after: sent`; frontend/parse refuses `seed=7`
argument
  : value=rangeExpression ((COLON | wrong=ASSIGN) labelled=rangeExpression)?
  | label=AFTER COLON labelled=rangeExpression
  ;

// `f32`, `BM = 64`
genericArgument: value=expression (ASSIGN named=expression)?;

index
  : whole=COLON
  | value=rangeExpression (BY step=expression)?
  ;

// Context words are names where nothing else can stand.
name
  : NAME | ALL | AS | ATOL | BY | COPY_ENGINE | IN | INOUT | ORDERED | OUT | PROGRAMS | RANKS | RTOL
  | SCRATCH | SYMM | UNORDERED | WITH
  ;
