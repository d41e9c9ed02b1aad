-- needs: core
-- ARGV: 1, a command. A script whose first write takes nothing is carried out also when memory is full.
call('DEL', P .. 'none')
return call(unpack(ARGV, 2))
