-- needs: core press
-- Any command. ARGV: 1, the command.
return call(unpack(ARGV, 2))
