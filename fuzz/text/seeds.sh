#!/bin/sh
# Small valid files of every format, from which the fuzzers start: seeds.sh FOLDER
set -eu
put() { mkdir -p "$(dirname "$folder/$1")" && printf "$2" > "$folder/$1"; }
folder=$1
put arff/dense "@relation 'f: -C 2'\n@attribute l {0,1}\n@attribute 'm 1' {true,false}\n@attribute a numeric\n%% note\n@attribute c {red,'dark blue'}\n@data\n1,true,0.5,red\n0,false,?,'dark blue'\n"
put arff/sparse "@RELATION f\n@ATTRIBUTE a REAL\n@ATTRIBUTE c {x,y}\n@ATTRIBUTE d date\n@ATTRIBUTE l {1,0}\n@DATA\n{0 1.5,3 1}\n{1 y, 3 0}\n{}\n"
put csv/comma 'a,"b ""x""",l,m\n0.5,1,1,0\n"2",-3e2,0,true\n\n,NA,1,0\n'
put csv/semicolon 'a;b;l\r\n0,5;1e-400;1\r\n"x\ny";?;0\r\n'
put csv/tab 'a\tl\n+1\tTRUE\n.5\tfalse'
put libsvm/one '1,3 1:0.5 7:2\n2 3:1e-3 # note\n\n 5:1\n'
put libsvm/zero '0 0:-1e308 2147483645:+.5\n16777215 1:1e-999\n'
put xmc/small '3 8 4\n1,3 0:0.5 7:2\n2 3:1e-3\n 5:1\n'
put xmc/empty '2 2147483646 16777216\n\n\n'
touch "$folder"
